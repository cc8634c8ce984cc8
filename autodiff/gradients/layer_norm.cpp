#include "graph/ops/layer_norm.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/reduce.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

std::vector<Value> layer_norm_gradient(const GradientRequest& r) {
  SF_CHECK_CODE(!r.output_gradients[1].valid() && !r.output_gradients[2].valid(), ArgumentError,
                ErrorCode::no_gradient_rule, r.node.label(),
                ": the loss depends on the statistics themselves, which have no gradient",
                hint("compute them with reduce_mean; a third derivative needs the norm composed of small operations"));
  const auto g = layer_norm_grad(r.dy(), r.input(0), r.input(1), r.node.output(1), r.node.output(2));
  return {g.dx, g.dscale, g.dshift};
}

/// A number a row, repeated along the rows of x.
Value along_rows(Value per_row, Value x) {
  return reduce_grad(per_row, x, {Reduction::sum, {.axes = {-1}}});
}
/// The mean of each row, repeated along it.
Value row_means(Value x) {
  return along_rows(reduce_mean(x, {.axes = {-1}}), x);
}
/// The sum over all rows.
Value over_rows(Value x, Value per_channel) {
  return reduce_to_like(x, per_channel);
}

/// What is computed with, in f32.
struct LayerNormTerms {
  Value dy, x, scale, mean, rstd;
  Value normal;  ///< (x - mean) rstd

  /// rstd (v - mean v - normal mean(v normal)): how a change of `normal` becomes one of x, and symmetric.
  Value projected(Value v) const { return layer_norm_grad(v, x, full_like(scale, 1), mean, rstd).dx; }
};

/// With h = dy scale: dx = rstd (h - mean h - n mean(h n)), dscale = sum dy n, dshift = sum dy, where n = normal and
/// rstd are functions of x. g: the gradients of dx, dscale and dshift, of which any may be absent.
std::vector<Value> layer_norm_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 3, "layer_norm", 1);
  const Dtype dtype = r.input(1).dtype();
  LayerNormTerms t{
      in_dtype(r.input(0), Dtype::f32), in_dtype(r.input(1), Dtype::f32), r.input(2), r.input(3), r.input(4), Value()};
  t.normal = (t.x - along_rows(t.mean, t.x)) * along_rows(t.rstd, t.x);
  Value of_dy, of_x, of_scale;
  if (r.output_gradients[0].valid()) {
    const Value g = in_dtype(r.output_gradients[0], Dtype::f32);
    const Value u = t.projected(g);
    const Value h = t.dy * t.scale;
    of_dy = u * t.scale;
    of_scale = over_rows(t.dy * u, t.scale);
    const Value rstd = along_rows(t.rstd, t.x);
    const Value of_normal = neg(rstd * (g * row_means(h * t.normal) + h * row_means(g * t.normal)));
    const Value dx = in_dtype(r.node.output(0), Dtype::f32);
    of_x = t.projected(of_normal) - rstd * t.normal * row_means(g * dx);
  }
  if (r.output_gradients[1].valid()) {
    const Value g = r.output_gradients[1];
    of_dy = plus(of_dy, t.normal * g);
    of_x = plus(of_x, t.projected(t.dy * g));
  }
  if (r.output_gradients[2].valid()) of_dy = plus(of_dy, broadcast_like(r.output_gradients[2], t.x));
  return {in_dtype(of_dy, dtype), of_x.valid() ? in_dtype(of_x, dtype) : Value(), of_scale, Value(), Value()};
}

}  // namespace

void add_layer_norm_gradients(GradientRegistry& registry) {
  registry.add("layer_norm", layer_norm_gradient);
  registry.add("layer_norm_grad", layer_norm_grad_gradient, {.zero_inputs = {3, 4}, .perhaps_none = {1, 2}});
}

}  // namespace sectionflow

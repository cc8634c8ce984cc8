#include "graph/ops/batch_norm.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

// Mean and variance are statistics for the moving averages; no loss may depend on them otherwise.
std::vector<Value> batch_norm_gradient(const GradientRequest& r) {
  SF_CHECK_CODE(!r.output_gradients[1].valid() && !r.output_gradients[2].valid(), ArgumentError,
                ErrorCode::no_gradient_rule, r.node.label(),
                ": the loss depends on the batch statistics themselves, which have no gradient",
                hint("compute them with reduce_mean; a third derivative needs the norm composed of small operations"));
  SF_CHECK_CODE(
      !r.wanted[3] && !r.wanted[4], ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
      ": its running statistics depend on a variable to train; gradients with respect to them are not supported",
      hint("put stop_gradient() around them"));
  const auto g = batch_norm_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), r.node.output(2),
                                 r.input(5), r.node.options<BatchNormOptions>());
  return {g.dx, g.dscale, g.dshift, Value(), Value(), Value()};
}

/// What is computed with, in f32, and the axes that are normalised over.
struct BatchNormTerms {
  const GradientRequest& r;
  BatchNormOptions options;
  ReduceOptions over{};
  Value dy{}, x{}, scale{}, rstd{};
  Value normal{};   ///< (x - mean) rstd
  Value is_kept{};  ///< with relu: where y is positive

  explicit BatchNormTerms(const GradientRequest& request)
      : r(request), options(request.node.options<BatchNormOptions>()) {
    x = in_dtype(r.input(1), Dtype::f32);
    const int rank = x.shape().rank();
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != (channel_axis(options.format) + rank) % rank) over.axes.push_back(axis);
    }
    scale = r.input(2);
    rstd = along(rsqrt(r.input(4) + options.epsilon));
    normal = (x - along(r.input(3))) * rstd;
    if (options.relu) is_kept = greater(normal * along(scale) + along(r.input(6)), constant(x.graph(), 0.0F));
    dy = kept(in_dtype(r.input(0), Dtype::f32));
  }

  /// A number a channel, repeated along x.
  Value along(Value per_channel) const { return reduce_grad(per_channel, x, {Reduction::sum, over}); }
  Value means(Value v) const { return along(reduce_mean(v, over)); }
  /// v where y was not cut off.
  Value kept(Value v) const { return options.relu ? select(is_kept, v, constant(x.graph(), 0.0F)) : v; }
  /// How a change of `normal` becomes one of x, and symmetric: rstd (v - mean v - normal mean(v normal)), or rstd v
  /// with running statistics.
  Value projected(Value v) const {
    const BatchNormOptions plain{.epsilon = options.epsilon, .format = options.format};
    return batch_norm_grad(v, x, full_like(scale, 1), Value(), r.input(3), r.input(4), r.input(5), plain).dx;
  }
};

/// With d = dy where y was not cut off, and h = d scale: dx = projected(h), dscale = sum d normal, dshift = sum d,
/// where normal and rstd are functions of x unless the statistics are the running ones.
std::vector<Value> batch_norm_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 3, "batch_norm", 1);
  const BatchNormTerms t(r);
  const Dtype dtype = r.input(1).dtype();
  Value of_dy, of_x, of_scale;
  if (r.output_gradients[0].valid()) {
    const Value g = in_dtype(r.output_gradients[0], Dtype::f32);
    const Value u = t.projected(g);
    const Value h = t.dy * t.along(t.scale);
    of_dy = u * t.along(t.scale);
    of_scale = reduce_sum(t.dy * u, t.over);
    const Value of_normal = neg(t.rstd * (g * t.means(h * t.normal) + h * t.means(g * t.normal)));
    const Value dx = in_dtype(r.node.output(0), Dtype::f32);
    const Value of_statistics = t.projected(of_normal) - t.rstd * t.normal * t.means(g * dx);
    of_x = select(r.input(5), of_statistics, constant(t.x.graph(), 0.0F));
  }
  if (r.output_gradients[1].valid()) {
    const Value g = t.along(r.output_gradients[1]);
    of_dy = plus(of_dy, t.normal * g);
    of_x = plus(of_x, t.projected(t.dy * g));
  }
  if (r.output_gradients[2].valid()) of_dy = plus(of_dy, t.along(r.output_gradients[2]));
  std::vector<Value> gradients(r.wanted.size());
  gradients[0] = in_dtype(t.kept(of_dy), dtype);
  if (of_x.valid()) gradients[1] = in_dtype(of_x, dtype);
  gradients[2] = of_scale;
  return gradients;
}

}  // namespace

void add_batch_norm_gradients(GradientRegistry& registry) {
  registry.add("batch_norm", batch_norm_gradient);
  registry.add("batch_norm_grad", batch_norm_grad_gradient, {.zero_inputs = {3, 4, 6}, .perhaps_none = {1, 2}});
}

}  // namespace sectionflow

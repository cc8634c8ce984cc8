#include "graph/ops/layer_norm.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "autodiff/normalization.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/reduce.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

std::vector<Value> layer_norm_gradient(const GradientRequest& r) {
  check_no_loss_of_statistics(r);
  const auto g = layer_norm_grad(r.dy(), r.input(0), r.input(1), r.node.output(1), r.node.output(2));
  return {g.dx, g.dscale, g.dshift};
}

std::vector<Value> rms_norm_gradient(const GradientRequest& r) {
  check_no_loss_of_statistics(r);
  const auto g = rms_norm_grad(r.dy(), r.input(0), r.input(1), r.node.output(1));
  return {g.dx, g.dscale};
}

/// A number a row, repeated along the rows of x.
Value along_rows(Value per_row, Value x) {
  return reduce_grad(per_row, x, {Reduction::sum, {.axes = {-1}}});
}

template <bool centred>
std::vector<Value> norm_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 3, centred ? "layer_norm" : "rms_norm", 1);
  const Value x = in_dtype(r.input(1), Dtype::f32), scale = r.input(2), statistic = r.input(3);
  NormTerms t{.dy = in_dtype(r.input(0), Dtype::f32),
              .x = x,
              .scale = scale,
              .rstd = along_rows(r.input(centred ? 4 : 3), x),
              .normal = Value(),
              .means = [&](Value v) { return along_rows(reduce_mean(v, {.axes = {-1}}), x); },
              .projected =
                  [&](Value v) {
                    const Value one = full_like(scale, 1);
                    return centred ? layer_norm_grad(v, x, one, statistic, r.input(4)).dx
                                   : rms_norm_grad(v, x, one, statistic).dx;
                  },
              .along = [](Value v) { return v; },
              .sums = [&](Value v) { return reduce_to_like(v, scale); }};
  t.normal = (centred ? x - along_rows(statistic, x) : x) * t.rstd;
  return gradients_of_norm_gradient(r, t);
}

}  // namespace

void add_layer_norm_gradients(GradientRegistry& registry) {
  registry.add("layer_norm", layer_norm_gradient);
  registry.add("layer_norm_grad", norm_grad_gradient<true>, {.zero_inputs = {3, 4}, .perhaps_none = {1, 2}});
  registry.add("rms_norm", rms_norm_gradient);
  registry.add("rms_norm_grad", norm_grad_gradient<false>, {.zero_inputs = {3}, .perhaps_none = {1, 2}});
}

}  // namespace sectionflow

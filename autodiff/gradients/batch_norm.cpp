#include "graph/ops/batch_norm.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "autodiff/normalization.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

// Mean and variance are statistics for the moving averages; no loss may depend on them otherwise.
std::vector<Value> batch_norm_gradient(const GradientRequest& r) {
  check_no_loss_of_statistics(r);
  SF_CHECK_CODE(
      !r.wanted[3] && !r.wanted[4], ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
      ": its running statistics depend on a variable to train; gradients with respect to them are not supported",
      hint("put stop_gradient() around them"));
  const auto g = batch_norm_grad(r.dy(), r.input(0), r.input(1), r.input(2), r.node.output(1), r.node.output(2),
                                 r.input(5), r.node.options<BatchNormOptions>());
  return {g.dx, g.dscale, g.dshift, Value(), Value(), Value()};
}

/// With d = dy where y was not cut off. `projected` is rstd v alone, and nothing comes through the statistics, where
/// these are the running ones.
std::vector<Value> batch_norm_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 3, "batch_norm", 1);
  const auto& options = r.node.options<BatchNormOptions>();
  const Value x = in_dtype(r.input(1), Dtype::f32), scale = r.input(2), mean = r.input(3), variance = r.input(4);
  const Value zero = constant(x.graph(), 0.0F);
  const int rank = x.shape().rank();
  ReduceOptions over;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis != (channel_axis(options.format) + rank) % rank) over.axes.push_back(axis);
  }
  const auto along = [&](Value per_channel) { return reduce_grad(per_channel, x, {Reduction::sum, over}); };
  const auto projected = [&](Value v) {
    const BatchNormOptions plain{.epsilon = options.epsilon, .format = options.format};
    return batch_norm_grad(v, x, full_like(scale, 1), Value(), mean, variance, r.input(5), plain).dx;
  };
  NormTerms t{.dy = in_dtype(r.input(0), Dtype::f32),
              .x = x,
              .scale = along(scale),
              .rstd = along(rsqrt(variance + options.epsilon)),
              .normal = Value(),
              .means = [&](Value v) { return along(reduce_mean(v, over)); },
              .projected = projected,
              .along = along,
              .sums = [&](Value v) { return reduce_sum(v, over); },
              .through_statistics = [&](Value v) { return select(r.input(5), v, zero); }};
  t.normal = (x - along(mean)) * t.rstd;
  if (options.relu) {
    const Value is_kept = greater(t.normal * t.scale + along(r.input(6)), zero);
    t.kept = [=](Value v) { return select(is_kept, v, zero); };
    t.dy = t.kept(t.dy);
  }
  return gradients_of_norm_gradient(r, t);
}

}  // namespace

void add_batch_norm_gradients(GradientRegistry& registry) {
  registry.add("batch_norm", batch_norm_gradient);
  registry.add("batch_norm_grad", batch_norm_grad_gradient, {.zero_inputs = {3, 4, 6}, .perhaps_none = {1, 2}});
}

}  // namespace sectionflow

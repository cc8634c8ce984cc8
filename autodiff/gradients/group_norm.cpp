#include "graph/ops/group_norm.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "autodiff/normalization.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

std::vector<Value> group_norm_gradient(const GradientRequest& r) {
  check_no_loss_of_statistics(r);
  const auto g = group_norm_grad(r.dy(), r.input(0), r.input(1), r.node.output(1), r.node.output(2),
                                 r.node.options<GroupNormOptions>());
  return {g.dx, g.dscale, g.dshift};
}

/// What is repeated along x and summed over it: groups of channels, [N, G], and channels, [C].
struct Groups {
  Value x;
  std::int64_t groups, group_channels;
  ReduceOptions places{}, all_but_channels{};

  Groups(Value x, const GroupNormOptions& options)
      : x(x), groups(options.groups), group_channels(x.shape()[channel_axis(options.format)] / options.groups) {
    const int rank = x.shape().rank(), channel = (channel_axis(options.format) + rank) % rank;
    all_but_channels.axes.push_back(0);
    for (int axis = 1; axis < rank; ++axis) {
      if (axis == channel) continue;
      places.axes.push_back(axis);
      all_but_channels.axes.push_back(axis);
    }
  }

  Value along(Value per_group) const {
    const Value each = reshape(per_group, {-1, groups, 1}) + fill(x.graph(), {group_channels}, 0);  // [N, G, C / G]
    const Value per_channel = reshape(each, {-1, groups * group_channels});                         // [N, C]
    return places.axes.empty() ? per_channel : reduce_grad(per_channel, x, {Reduction::sum, places});
  }
  Value means(Value v) const {
    const Value per_channel = places.axes.empty() ? v : reduce_mean(v, places);  // [N, C]
    return along(reduce_mean(reshape(per_channel, {-1, groups, group_channels}), {.axes = {2}}));
  }
  Value along_channels(Value per_channel) const {
    return reduce_grad(per_channel, x, {Reduction::sum, all_but_channels});
  }
};

std::vector<Value> group_norm_grad_gradient(const GradientRequest& r) {
  check_own_statistics(r, 3, "group_norm", 1);
  const auto& options = r.node.options<GroupNormOptions>();
  const Value x = in_dtype(r.input(1), Dtype::f32), scale = r.input(2), mean = r.input(3), rstd = r.input(4);
  SF_CHECK_CODE(x.shape()[channel_axis(options.format)] != kDynamic, ArgumentError, ErrorCode::no_gradient_rule,
                r.node.label(), ": a second derivative wants the channels known before a run; came ", x.shape(),
                hint("give the placeholder its number of channels"));
  const Groups of(x, options);
  NormTerms t{.dy = in_dtype(r.input(0), Dtype::f32),
              .x = x,
              .scale = of.along_channels(scale),
              .rstd = of.along(rstd),
              .normal = Value(),
              .means = [&](Value v) { return of.means(v); },
              .projected = [&](Value v) { return group_norm_grad(v, x, full_like(scale, 1), mean, rstd, options).dx; },
              .along = [&](Value v) { return of.along_channels(v); },
              .sums = [&](Value v) { return reduce_sum(v, of.all_but_channels); }};
  t.normal = (x - of.along(mean)) * t.rstd;
  return gradients_of_norm_gradient(r, t);
}

}  // namespace

void add_group_norm_gradients(GradientRegistry& registry) {
  registry.add("group_norm", group_norm_gradient);
  registry.add("group_norm_grad", group_norm_grad_gradient, {.zero_inputs = {3, 4}, .perhaps_none = {1, 2}});
}

}  // namespace sectionflow

#include <utility>
#include <vector>

#include "graph/ops/group_norm.h"
#include "kernels/cuda/channel_norm.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/map_channels.h"
#include "kernels/cuda/row_teams.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"

// Channels are those of each image; a row of RowTeams is the channels of a group.

namespace sectionflow {
namespace {

using gpu::ChannelCut;
using gpu::Channels;

gpu::RowTeams teams_of_groups(const Channels& of, std::int64_t images, std::int64_t groups) {
  return gpu::RowTeams({images * groups, images * groups == 0 ? 0 : of.channels / (images * groups)});
}

/// What normalising reads, one number a channel of each image; and, unless they are there, the statistics of each
/// group.
struct SpreadStatistics {
  gpu::RowTeams rows;
  std::int64_t groups;
  const float *scale, *shift;       // [C]
  float *mean, *rstd;               // [N, groups]
  float *means, *factors, *shifts;  // [N, C]: at first mean and variance of the channels; no shifts: not wanted
  float epsilon;
  bool has_statistics;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const std::int64_t at = row * rows.length, in_image = row % groups * rows.length;
      const Statistics of_group = has_statistics ? Statistics{mean[row], rstd[row]} : statistics_of(team, at);
      if (!has_statistics && team.lane() == 0) {
        mean[row] = of_group.mean;
        rstd[row] = of_group.rstd;
      }
      const float* scales = scale + in_image;
      team.map(
          means + at, [=](std::int64_t, float) { return of_group.mean; }, scales);
      team.map(
          factors + at, [=](std::int64_t, float scale_c) { return scale_c * of_group.rstd; }, scales);
      if (shifts)
        team.map(
            shifts + at, [](std::int64_t, float shift_c) { return shift_c; }, shift + in_image);
    }
  }

 private:
  struct Statistics {
    float mean, rstd;
  };
  /// All channels have the same number of elements.
  template <class Team>
  SF_HOST_DEVICE Statistics statistics_of(Team& team, std::int64_t at) const {
    const auto count = static_cast<double>(rows.length);
    const float *of_means = means + at, *of_variances = factors + at;
    const double m = team.sum([](std::int64_t, float mean_c) { return mean_c; }, of_means) / count;
    const double variance =
        team.sum([=](std::int64_t, float mean_c,
                     float variance_c) { return static_cast<float>(variance_c + (mean_c - m) * (mean_c - m)); },
                 of_means, of_variances);
    return {static_cast<float>(m), formulas::batch_norm_rstd(static_cast<float>(variance / count), epsilon)};
  }
};

/// What dx subtracts, one number a channel of each image, from the sums of the channels.
struct SpreadTerms {
  gpu::RowTeams rows;
  std::int64_t groups;
  double group_count;
  const float *scale, *rstd;            // [C], [N, groups]
  const float *dy_sums, *product_sums;  // [N, C]
  float *offsets, *x_factors;           // [N, C]

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    gpu::RowTeam<Thread> team(thread, rows);
    const auto product = [](std::int64_t, float scale_c, float sum) { return scale_c * sum; };
    for (std::int64_t row = team.first_row(); row < rows.count; row += team.row_step()) {
      const std::int64_t at = row * rows.length;
      const float* scales = scale + row % groups * rows.length;
      const double dy_sum = team.sum(product, scales, dy_sums + at);
      const double product_sum = team.sum(product, scales, product_sums + at);
      const formulas::GroupNormTerms terms = formulas::group_norm_terms(dy_sum, product_sum, group_count, rstd[row]);
      team.map(
          offsets + at, [=](std::int64_t, float) { return terms.offset; }, scales);
      team.map(
          x_factors + at, [=](std::int64_t, float) { return terms.x_factor; }, scales);
    }
  }
};

struct WriteChannelSums {
  float *dy_sums, *product_sums;
  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    dy_sums[c] = static_cast<float>(sums[0]);
    product_sums[c] = static_cast<float>(sums[1]);
  }
};

/// dscale and dshift of a channel, over the images in turn.
struct SumImages {
  std::int64_t images, channels, groups;
  const float *rstd, *dy_sums, *product_sums;
  float *dscale, *dshift;

  SF_HOST_DEVICE void operator()(std::int64_t c) const {
    const std::int64_t group = c / (channels / groups);
    double scale_sum = 0, shift_sum = 0;
    for (std::int64_t image = 0; image < images; ++image) {
      scale_sum +=
          static_cast<double>(product_sums[image * channels + c]) * static_cast<double>(rstd[image * groups + group]);
      shift_sum += dy_sums[image * channels + c];
    }
    dscale[c] = static_cast<float>(scale_sum);
    dshift[c] = static_cast<float>(shift_sum);
  }
};

template <class T>
struct GroupForward {
  Channels of;
  gpu::RowTeams rows;
  std::int64_t groups;
  float epsilon;
  bool has_statistics;  // outputs 1 and 2 are already there
  std::size_t partials_at, means_at, factors_at, shifts_at;

  GroupForward(const KernelRequest& request, const GroupNormOptions& options, WorkspaceLayout& workspace)
      : of(Channels::of_each_image(request.inputs[0].shape, options.format)),
        rows(teams_of_groups(of, request.inputs[0].shape[0], options.groups)),
        groups(options.groups),
        epsilon(options.epsilon),
        has_statistics(request.replay),
        partials_at(workspace.add(has_statistics ? 0 : ChannelCut(of).partial_bytes(2))),
        means_at(gpu::add_per_channel(workspace, of)),
        factors_at(gpu::add_per_channel(workspace, of)),
        shifts_at(gpu::add_per_channel(workspace, of)) {}

  void operator()(const KernelArguments& arguments) const {
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto* x = static_cast<const T*>(arguments.inputs[0]);
    float *means = part(means_at), *factors = part(factors_at), *shifts = part(shifts_at);
    if (!has_statistics) {
      gpu::sum_channels<2>(arguments.queue, ChannelCut(of), part(partials_at), gpu::Deviations<T>{of, {x}},
                           gpu::WriteMoments<T>{of, x, means, factors});
    }
    gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                       SpreadStatistics{rows, groups, input(1), input(2), output(1), output(2), means, factors, shifts,
                                        epsilon, has_statistics});
    using Normalize = gpu::NormalizeChannels<false>;
    gpu::launch_map_channels(arguments.queue,
                             gpu::MapChannels<T, 1, Normalize>{
                                 of, {x}, static_cast<T*>(arguments.outputs[0]), Normalize{means, factors, shifts}});
  }
};

template <class T>
struct GroupBackward {
  Channels of;
  gpu::RowTeams rows;
  std::int64_t images, channels, groups;
  std::size_t partials_at, means_at, factors_at, dy_sums_at, product_sums_at, offsets_at, x_factors_at;

  GroupBackward(const KernelRequest& request, const GroupNormOptions& options, WorkspaceLayout& workspace)
      : of(Channels::of_each_image(request.outputs[0].shape, options.format)),
        rows(teams_of_groups(of, request.outputs[0].shape[0], options.groups)),
        images(request.outputs[0].shape[0]),
        channels(request.outputs[1].shape[0]),
        groups(options.groups),
        partials_at(workspace.add(ChannelCut(of).partial_bytes(2))),
        means_at(gpu::add_per_channel(workspace, of)),
        factors_at(gpu::add_per_channel(workspace, of)),
        dy_sums_at(gpu::add_per_channel(workspace, of)),
        product_sums_at(gpu::add_per_channel(workspace, of)),
        offsets_at(gpu::add_per_channel(workspace, of)),
        x_factors_at(gpu::add_per_channel(workspace, of)) {}

  void operator()(const KernelArguments& arguments) const {
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto* dy = static_cast<const T*>(arguments.inputs[group_norm_grad_input::dy]);
    const auto* x = static_cast<const T*>(arguments.inputs[group_norm_grad_input::x]);
    const float *scale = input(group_norm_grad_input::scale), *rstd = input(group_norm_grad_input::rstd);
    float *means = part(means_at), *factors = part(factors_at), *offsets = part(offsets_at),
          *x_factors = part(x_factors_at), *dy_sums = part(dy_sums_at), *product_sums = part(product_sums_at);
    // The statistics are there and are not written.
    gpu::launch_blocks(
        arguments.queue, rows.launch_shape(),
        SpreadStatistics{rows, groups, scale, nullptr, const_cast<float*>(input(group_norm_grad_input::mean)),
                         const_cast<float*>(rstd), means, factors, nullptr, 0, true});
    const gpu::PerChannel per_channel{means, factors, nullptr};
    gpu::sum_channels<2>(arguments.queue, ChannelCut(of), part(partials_at),
                         gpu::Arrivals<T, false>{{dy, x}, per_channel}, WriteChannelSums{dy_sums, product_sums});
    const auto group_count = static_cast<double>(of.count() * rows.length);
    gpu::launch_blocks(arguments.queue, rows.launch_shape(),
                       SpreadTerms{rows, groups, group_count > 0 ? group_count : 1.0, scale, rstd, dy_sums,
                                   product_sums, offsets, x_factors});
    gpu::launch_each(arguments.queue, channels,
                     SumImages{images, channels, groups, rstd, dy_sums, product_sums, output(1), output(2)});
    using Dx = gpu::ChannelDx<formulas::GroupNormDx, false>;
    gpu::launch_map_channels(
        arguments.queue, gpu::MapChannels<T, 2, Dx>{
                             of, {dy, x}, static_cast<T*>(arguments.outputs[0]), {per_channel, offsets, x_factors}});
  }
};

template <class Body>
std::unique_ptr<Kernel> make_group_kernel(const KernelRequest& request, std::vector<InPlace> in_place) {
  WorkspaceLayout workspace;
  const Body body(request, request.node.options<GroupNormOptions>(), workspace);
  return function_kernel(body, {.workspace_bytes = workspace.num_bytes(), .in_place = std::move(in_place)});
}

// x, y and their gradients are f32 or bf16; all else is f32.
std::unique_ptr<Kernel> make_group_norm(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return make_group_kernel<GroupForward<decltype(element)>>(request, {{.input = 0, .output = 0}});
  });
}
std::unique_ptr<Kernel> make_group_norm_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    return make_group_kernel<GroupBackward<decltype(element)>>(
        request, {{.input = group_norm_grad_input::dy, .output = 0}, {.input = group_norm_grad_input::x, .output = 0}});
  });
}

}  // namespace

void add_group_norm_cuda_kernels(KernelRegistry& registry) {
  registry.add("group_norm", make_group_norm, Bf16::native);
  registry.add("group_norm_grad", make_group_norm_grad, Bf16::native);
}

}  // namespace sectionflow

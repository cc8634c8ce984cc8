#include "graph/ops/batch_norm.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/channel_norm.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

// Own loops: oneDNN's statistics depend on the thread count, and it passes over x three times in a training forward
// where two do (a tile is still in cache when its variance is taken).
//
// The kernels are templates on `Loops`, Columns or Planes by the place of the channels, and on T, what x, y and their
// gradients are stored as.

namespace sectionflow {
namespace {

/// factor[c] = what x - mean is multiplied by.
void write_factors(std::int64_t channels, const float* scale, const float* variance, float epsilon, float* factor) {
  for (std::int64_t c = 0; c < channels; ++c) factor[c] = scale[c] * formulas::batch_norm_rstd(variance[c], epsilon);
}

template <class T, class Loops>
std::unique_ptr<Kernel> make_batch_norm_of(const KernelRequest& request, const Loops& loops) {
  const auto options = request.node.options<BatchNormOptions>();
  const bool training = host_boolean(request, batch_norm_input::is_training);
  const bool has_statistics = request.replay;  // outputs 1 and 2 are already there
  WorkspaceLayout workspace;
  const ChannelStatistics statistics(loops, workspace);
  const std::size_t factors_at = add_per_channel(workspace, loops.channels());
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* x = static_cast<const T*>(arguments.inputs[batch_norm_input::x]);  // [..., C], [N, C, ...]
        const auto* scale = static_cast<const float*>(arguments.inputs[batch_norm_input::scale]);  // [C]
        const auto* shift = static_cast<const float*>(arguments.inputs[batch_norm_input::shift]);  // [C]
        auto* y = static_cast<T*>(arguments.outputs[0]);                                           // like x
        auto* mean = static_cast<float*>(arguments.outputs[1]);                                    // [C]
        auto* variance = static_cast<float*>(arguments.outputs[2]);                                // [C]
        auto* factor = static_cast<float*>(workspace_part(arguments.workspace, factors_at));       // [C]
        if (!has_statistics && training) statistics.run(x, arguments.workspace, mean, variance);
        if (!has_statistics && !training) {
          const auto* running_mean = static_cast<const float*>(arguments.inputs[batch_norm_input::running_mean]);
          const auto* running_variance =
              static_cast<const float*>(arguments.inputs[batch_norm_input::running_variance]);
          std::copy_n(running_mean, loops.channels(), mean);
          std::copy_n(running_variance, loops.channels(), variance);
        }
        write_factors(loops.channels(), scale, variance, options.epsilon, factor);
        if (options.relu) {
          normalize_channels<true>(loops, x, mean, factor, shift, y);
        } else {
          normalize_channels<false>(loops, x, mean, factor, shift, y);
        }
      },
      {.workspace_bytes = workspace.num_bytes(), .in_place = {{.input = batch_norm_input::x, .output = 0}}});
}

/// The gradient of a forward pass with the given statistics: of this batch if `training`, constants otherwise. Two
/// passes over dy and x: sums, then dx.
template <class T, class Loops>
struct Gradient {
  Loops loops;
  BatchNormOptions options;
  bool training;
  ChannelGradientSums<Loops> sums;
  std::size_t factors_at, mean_dys_at, x_factors_at;  // f32 [C] each

  Gradient(const KernelRequest& request, const Loops& loops, WorkspaceLayout& workspace)
      : loops(loops),
        options(request.node.options<BatchNormOptions>()),
        training(host_boolean(request, batch_norm_grad_input::is_training)),
        sums(loops, workspace),
        factors_at(add_per_channel(workspace, loops.channels())),
        mean_dys_at(add_per_channel(workspace, loops.channels())),
        x_factors_at(add_per_channel(workspace, loops.channels())) {}

  template <bool relu>
  void run(const KernelArguments& arguments) const {
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto* dy = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::dy]);  // [..., C] or [N, C, ...]
    const auto* x = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::x]);    // like dy
    const float *scale = input(batch_norm_grad_input::scale), *mean = input(batch_norm_grad_input::mean),
                *variance = input(batch_norm_grad_input::variance);          // [C]
    const float* shift = relu ? input(batch_norm_grad_input::shift) : mean;  // [C]; not read without relu
    auto* dscale = static_cast<float*>(arguments.outputs[1]);                // [C]
    auto* dshift = static_cast<float*>(arguments.outputs[2]);                // [C]
    float* factor = part(factors_at);
    write_factors(loops.channels(), scale, variance, options.epsilon, factor);
    const typename Loops::Values lane_means(loops, mean), lane_factors(loops, factor), lane_shifts(loops, shift);
    const ArrivingGradient<relu, T> arriving{dy, x, lane_means.data(), lane_factors.data(), lane_shifts.data()};
    sums.run(arriving, arguments.workspace, dshift, dscale);
    float *mean_dy = part(mean_dys_at), *x_factor = part(x_factors_at);
    const float through_statistics = training && loops.count() > 0 ? 1.0F / static_cast<float>(loops.count()) : 0.0F;
    for (std::int64_t c = 0; c < loops.channels(); ++c) {
      const float r = formulas::batch_norm_rstd(variance[c], options.epsilon);
      mean_dy[c] = dshift[c] * through_statistics;
      x_factor[c] = r * r * dscale[c] * through_statistics;
      dscale[c] *= r;  // until here the sum of dy * (x - mean)
    }
    write_channel_dx<formulas::BatchNormDx>(loops, arriving, mean_dy, x_factor, static_cast<T*>(arguments.outputs[0]));
  }
};

template <class T, class Loops>
std::unique_ptr<Kernel> make_batch_norm_grad_of(const KernelRequest& request, const Loops& loops) {
  WorkspaceLayout workspace;
  const Gradient<T, Loops> gradient(request, loops, workspace);
  return function_kernel(
      [gradient](const KernelArguments& arguments) {
        if (gradient.options.relu) {
          gradient.template run<true>(arguments);
        } else {
          gradient.template run<false>(arguments);
        }
      },
      {.workspace_bytes = workspace.num_bytes(),
       .in_place = {{.input = batch_norm_grad_input::dy, .output = 0},
                    {.input = batch_norm_grad_input::x, .output = 0}}});
}

std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request) {
  const TensorType& x = request.inputs[batch_norm_input::x];
  return with_channel_loops(x.shape, request.node.options<BatchNormOptions>().format, [&](const auto& loops) {
    return with_stored_type(x.dtype,
                            [&](auto element) { return make_batch_norm_of<decltype(element)>(request, loops); });
  });
}

std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request) {
  const TensorType& x = request.inputs[batch_norm_grad_input::x];
  return with_channel_loops(x.shape, request.node.options<BatchNormOptions>().format, [&](const auto& loops) {
    return with_stored_type(x.dtype,
                            [&](auto element) { return make_batch_norm_grad_of<decltype(element)>(request, loops); });
  });
}

}  // namespace

void add_batch_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("batch_norm", make_batch_norm, Bf16::native);
  registry.add("batch_norm_grad", make_batch_norm_grad, Bf16::native);
}

}  // namespace sectionflow

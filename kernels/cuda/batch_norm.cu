#include "base/error.h"
#include "graph/ops/batch_norm.h"
#include "kernels/cuda/channel_norm.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/map_channels.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using gpu::add_per_channel;
using gpu::ChannelCut;
using gpu::Channels;
using gpu::PerChannel;

/// factor[c] = what x - mean is multiplied by.
struct WriteFactors {
  const float *scale, *variance;
  float* factor;
  float epsilon;
  SF_HOST_DEVICE void operator()(std::int64_t c) const {
    factor[c] = scale[c] * formulas::batch_norm_rstd(variance[c], epsilon);
  }
};

/// Mean and biased variance, and the factor.
template <class T>
struct WriteStatistics {
  gpu::WriteMoments<T> write_moments;
  WriteFactors write_factors;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    write_moments(c, sums);
    write_factors(c);
  }
};

template <class T>
struct Forward {
  Channels of;
  BatchNormOptions options;
  bool training, has_statistics;  // the latter: outputs 1 and 2 are already there
  std::size_t partials_at, factors_at;

  Forward(const KernelRequest& request, WorkspaceLayout& workspace)
      : of(request.inputs[batch_norm_input::x].shape, request.node.options<BatchNormOptions>().format),
        options(request.node.options<BatchNormOptions>()),
        training(host_boolean(request, batch_norm_input::is_training)),
        has_statistics(request.replay),
        partials_at(workspace.add(training && !has_statistics ? ChannelCut(of).partial_bytes(2) : 0)),
        factors_at(add_per_channel(workspace, of)) {}

  void operator()(const KernelArguments& arguments) const {
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
    const auto* x = static_cast<const T*>(arguments.inputs[batch_norm_input::x]);
    float *mean = output(1), *variance = output(2);
    auto* factor = static_cast<float*>(workspace_part(arguments.workspace, factors_at));
    const WriteFactors write_factors{input(batch_norm_input::scale), variance, factor, options.epsilon};
    if (!has_statistics && training) {
      gpu::sum_channels<2>(arguments.queue, ChannelCut(of), workspace_part(arguments.workspace, partials_at),
                           gpu::Deviations<T>{of, {x}}, WriteStatistics<T>{{of, x, mean, variance}, write_factors});
    } else {
      if (!has_statistics) {
        const std::size_t bytes = static_cast<std::size_t>(of.channels) * sizeof(float);
        gpu::copy_bytes(arguments.queue, mean, input(batch_norm_input::running_mean), bytes);
        gpu::copy_bytes(arguments.queue, variance, input(batch_norm_input::running_variance), bytes);
      }
      gpu::launch_each(arguments.queue, of.channels, write_factors);
    }
    const float* shift = input(batch_norm_input::shift);
    if (options.relu) {
      normalize(arguments, gpu::NormalizeChannels<true>{mean, factor, shift});
    } else {
      normalize(arguments, gpu::NormalizeChannels<false>{mean, factor, shift});
    }
  }

 private:
  template <bool relu>
  void normalize(const KernelArguments& arguments, const gpu::NormalizeChannels<relu>& function) const {
    gpu::launch_map_channels(arguments.queue, gpu::MapChannels<T, 1, gpu::NormalizeChannels<relu>>{
                                                  of,
                                                  {static_cast<const T*>(arguments.inputs[batch_norm_input::x])},
                                                  static_cast<T*>(arguments.outputs[0]),
                                                  function});
  }
};

/// dscale, dshift and what the last pass reads.
struct WriteSums {
  const float *scale, *variance;
  float epsilon, through_statistics;  // 1 / count, or 0 if mean and variance are constants
  float *dscale, *dshift, *factor, *mean_dy, *x_factor;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    const float r = formulas::batch_norm_rstd(variance[c], epsilon);
    const auto dy_sum = static_cast<float>(sums[0]), product_sum = static_cast<float>(sums[1]);
    factor[c] = scale[c] * r;
    mean_dy[c] = dy_sum * through_statistics;
    x_factor[c] = r * r * product_sum * through_statistics;
    dshift[c] = dy_sum;
    dscale[c] = product_sum * r;
  }
};

template <class T>
struct Backward {
  Channels of;
  BatchNormOptions options;
  bool training;
  std::size_t partials_at, factors_at, mean_dys_at, x_factors_at;

  Backward(const KernelRequest& request, WorkspaceLayout& workspace)
      : of(request.inputs[batch_norm_grad_input::x].shape, request.node.options<BatchNormOptions>().format),
        options(request.node.options<BatchNormOptions>()),
        training(host_boolean(request, batch_norm_grad_input::is_training)),
        partials_at(workspace.add(ChannelCut(of).partial_bytes(2))),
        factors_at(add_per_channel(workspace, of)),
        mean_dys_at(add_per_channel(workspace, of)),
        x_factors_at(add_per_channel(workspace, of)) {}

  template <bool relu>
  void run(const KernelArguments& arguments) const {
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(arguments.workspace, at)); };
    const auto* dy = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::dy]);
    const auto* x = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::x]);
    const float *scale = input(batch_norm_grad_input::scale), *variance = input(batch_norm_grad_input::variance);
    float *factor = part(factors_at), *mean_dy = part(mean_dys_at), *x_factor = part(x_factors_at);
    if (relu) {  // else nobody reads the factors before WriteSums has written them
      gpu::launch_each(arguments.queue, of.channels, WriteFactors{scale, variance, factor, options.epsilon});
    }
    const PerChannel per_channel{input(batch_norm_grad_input::mean), factor,
                                 relu ? input(batch_norm_grad_input::shift) : nullptr};
    const float through_statistics = training && of.count() > 0 ? 1.0F / static_cast<float>(of.count()) : 0.0F;
    gpu::sum_channels<2>(arguments.queue, ChannelCut(of), part(partials_at),
                         gpu::Arrivals<T, relu>{{dy, x}, per_channel},
                         WriteSums{scale, variance, options.epsilon, through_statistics, output(1), output(2), factor,
                                   mean_dy, x_factor});
    using Dx = gpu::ChannelDx<formulas::BatchNormDx, relu>;
    gpu::launch_map_channels(arguments.queue,
                             gpu::MapChannels<T, 2, Dx>{
                                 of, {dy, x}, static_cast<T*>(arguments.outputs[0]), {per_channel, mean_dy, x_factor}});
  }

  void operator()(const KernelArguments& arguments) const {
    if (options.relu) {
      run<true>(arguments);
    } else {
      run<false>(arguments);
    }
  }
};

template <class T>
std::unique_ptr<Kernel> make_batch_norm_of(const KernelRequest& request) {
  WorkspaceLayout workspace;
  const Forward<T> forward(request, workspace);
  return function_kernel(
      forward, {.workspace_bytes = workspace.num_bytes(), .in_place = {{.input = batch_norm_input::x, .output = 0}}});
}

template <class T>
std::unique_ptr<Kernel> make_batch_norm_grad_of(const KernelRequest& request) {
  WorkspaceLayout workspace;
  const Backward<T> backward(request, workspace);
  return function_kernel(backward, {.workspace_bytes = workspace.num_bytes(),
                                    .in_place = {{.input = batch_norm_grad_input::dy, .output = 0},
                                                 {.input = batch_norm_grad_input::x, .output = 0}}});
}

// x, y and their gradients are f32 or bf16; all else is f32.
std::unique_ptr<Kernel> make_batch_norm(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_batch_norm_of<decltype(element)>(request); });
}
std::unique_ptr<Kernel> make_batch_norm_grad(const KernelRequest& request) {
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return make_batch_norm_grad_of<decltype(element)>(request); });
}

}  // namespace

void add_batch_norm_cuda_kernels(KernelRegistry& registry) {
  registry.add("batch_norm", make_batch_norm, Bf16::native);
  registry.add("batch_norm_grad", make_batch_norm_grad, Bf16::native);
}

}  // namespace sectionflow

#include <cmath>

#include "base/error.h"
#include "graph/ops/batch_norm.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

using gpu::ChannelCut;
using gpu::Channels;

std::size_t add_per_channel(WorkspaceLayout& workspace, const Channels& of) {
  return workspace.add(static_cast<std::size_t>(of.channels) * sizeof(float));
}

/// What the sums of a channel are taken around: its first element, so that a mean far from 0 cancels nothing. An
/// element is at most sqrt(count) standard deviations from the mean, so that the variance loses no more than the
/// factor count of what a double has beyond a float.
template <class T>
SF_HOST_DEVICE double centre_of(const T* x, const Channels& of, std::int64_t channel) {
  if (of.count() == 0) return 0;
  const float first = x[channel * of.plane];
  return first - first == 0.0F ? first : 0.0F;  // infinity would make the mean NaN
}

/// Sums of x - centre and of its square.
template <class T>
struct Deviations {
  Channels of;
  const T* x;

  struct Add {
    const T* x;
    double centre;
    SF_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, double (&sums)[2]) const {
      const double deviation = static_cast<float>(x[i]) - centre;
      sums[0] += deviation;
      sums[1] = std::fma(deviation, deviation, sums[1]);
    }
  };
  SF_HOST_DEVICE Add of_channel(std::int64_t c) const { return {x, centre_of(x, of, c)}; }
};

/// Mean and biased variance from these.
template <class T>
struct WriteStatistics {
  Channels of;
  const T* x;
  float *mean, *variance;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    const double count = of.count() > 0 ? static_cast<double>(of.count()) : 1.0;
    const double value = (sums[1] - sums[0] * (sums[0] / count)) / count;
    mean[c] = static_cast<float>(centre_of(x, of, c) + sums[0] / count);
    variance[c] = static_cast<float>(value < 0 ? 0.0 : value);
  }
};

/// factor[c] = what x - mean is multiplied by.
struct WriteFactors {
  const float *scale, *variance;
  float* factor;
  float epsilon;
  SF_HOST_DEVICE void operator()(std::int64_t c) const {
    factor[c] = scale[c] * formulas::batch_norm_rstd(variance[c], epsilon);
  }
};

/// y from x.
template <bool relu>
struct Normalize {
  const float *mean, *factor, *shift;
  SF_HOST_DEVICE float operator()(std::int64_t c, const float (&x)[1]) const {
    const float value = formulas::batch_normalized(x[0], mean[c], factor[c], shift[c]);
    return relu && value <= 0.0F ? 0.0F : value;  // NaN passes
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
    if (!has_statistics && training) {
      gpu::sum_channels<2>(arguments.queue, ChannelCut(of), workspace_part(arguments.workspace, partials_at),
                           Deviations<T>{of, x}, WriteStatistics<T>{of, x, mean, variance});
    } else if (!has_statistics) {
      const std::size_t bytes = static_cast<std::size_t>(of.channels) * sizeof(float);
      gpu::copy_bytes(arguments.queue, mean, input(batch_norm_input::running_mean), bytes);
      gpu::copy_bytes(arguments.queue, variance, input(batch_norm_input::running_variance), bytes);
    }
    auto* factor = static_cast<float*>(workspace_part(arguments.workspace, factors_at));
    gpu::launch_each(arguments.queue, of.channels,
                     WriteFactors{input(batch_norm_input::scale), variance, factor, options.epsilon});
    const float* shift = input(batch_norm_input::shift);
    if (options.relu) {
      normalize(arguments, Normalize<true>{mean, factor, shift});
    } else {
      normalize(arguments, Normalize<false>{mean, factor, shift});
    }
  }

 private:
  template <bool relu>
  void normalize(const KernelArguments& arguments, const Normalize<relu>& function) const {
    gpu::launch_map_channels(arguments.queue, gpu::MapChannels<T, 1, Normalize<relu>>{
                                                  of,
                                                  {static_cast<const T*>(arguments.inputs[batch_norm_input::x])},
                                                  static_cast<T*>(arguments.outputs[0]),
                                                  function});
  }
};

/// The gradient that reaches batch norm itself: all of dy, or with `relu` where y is positive.
template <bool relu>
SF_HOST_DEVICE float arriving(float dy, float x, float mean, float factor, float shift) {
  return !relu || formulas::batch_normalized(x, mean, factor, shift) > 0.0F ? dy : 0.0F;
}

/// One number a channel each; `shift` is read with relu alone.
struct PerChannel {
  const float *mean, *factor, *shift;
};

/// Sums of the gradient that arrives, and of its product with x - mean.
template <class T, bool relu>
struct Arrivals {
  const T *dy, *x;
  PerChannel of;

  struct Add {
    const T *dy, *x;
    float mean, factor, shift;
    SF_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, double (&sums)[2]) const {
      const float value = x[i];
      const double arrived = arriving<relu>(dy[i], value, mean, factor, shift);
      sums[0] += arrived;
      sums[1] += arrived * static_cast<double>(value - mean);
    }
  };
  SF_HOST_DEVICE Add of_channel(std::int64_t c) const {
    return {dy, x, of.mean[c], of.factor[c], relu ? of.shift[c] : 0.0F};
  }
};

/// dscale, dshift and what the last pass reads.
struct WriteSums {
  const float* variance;
  float epsilon, through_statistics;  // 1 / count, or 0 if mean and variance are constants
  float *dscale, *dshift;
  formulas::BatchNormGradientFactors* factors;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    const float r = formulas::batch_norm_rstd(variance[c], epsilon);
    const auto dy_sum = static_cast<float>(sums[0]), product_sum = static_cast<float>(sums[1]);
    factors[c] = {dy_sum * through_statistics, r * r * product_sum * through_statistics};
    dshift[c] = dy_sum;
    dscale[c] = product_sum * r;
  }
};

/// dx from dy and x.
template <bool relu>
struct InputGradient {
  PerChannel of;
  const formulas::BatchNormGradientFactors* factors;
  SF_HOST_DEVICE float operator()(std::int64_t c, const float (&values)[2]) const {
    const float dy = values[0], x = values[1], mean = of.mean[c], factor = of.factor[c];
    const float arrived = arriving<relu>(dy, x, mean, factor, relu ? of.shift[c] : 0.0F);
    return formulas::batch_norm_dx(arrived, x, mean, factor, factors[c]);
  }
};

template <class T>
struct Backward {
  Channels of;
  BatchNormOptions options;
  bool training;
  std::size_t partials_at, factors_at, gradient_factors_at;

  Backward(const KernelRequest& request, WorkspaceLayout& workspace)
      : of(request.inputs[batch_norm_grad_input::x].shape, request.node.options<BatchNormOptions>().format),
        options(request.node.options<BatchNormOptions>()),
        training(host_boolean(request, batch_norm_grad_input::is_training)),
        partials_at(workspace.add(ChannelCut(of).partial_bytes(2))),
        factors_at(add_per_channel(workspace, of)),
        gradient_factors_at(
            workspace.add(static_cast<std::size_t>(of.channels) * sizeof(formulas::BatchNormGradientFactors))) {}

  template <bool relu>
  void run(const KernelArguments& arguments) const {
    const auto input = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const auto output = [&](int index) { return static_cast<float*>(arguments.outputs[index]); };
    const auto part = [&](std::size_t at) { return workspace_part(arguments.workspace, at); };
    const auto* dy = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::dy]);
    const auto* x = static_cast<const T*>(arguments.inputs[batch_norm_grad_input::x]);
    const float* variance = input(batch_norm_grad_input::variance);
    auto* factor = static_cast<float*>(part(factors_at));
    gpu::launch_each(arguments.queue, of.channels,
                     WriteFactors{input(batch_norm_grad_input::scale), variance, factor, options.epsilon});
    const PerChannel per_channel{input(batch_norm_grad_input::mean), factor,
                                 relu ? input(batch_norm_grad_input::shift) : nullptr};
    const float through_statistics = training && of.count() > 0 ? 1.0F / static_cast<float>(of.count()) : 0.0F;
    auto* factors = static_cast<formulas::BatchNormGradientFactors*>(part(gradient_factors_at));
    gpu::sum_channels<2>(arguments.queue, ChannelCut(of), part(partials_at), Arrivals<T, relu>{dy, x, per_channel},
                         WriteSums{variance, options.epsilon, through_statistics, output(1), output(2), factors});
    gpu::launch_map_channels(
        arguments.queue,
        gpu::MapChannels<T, 2, InputGradient<relu>>{
            of, {dy, x}, static_cast<T*>(arguments.outputs[0]), InputGradient<relu>{per_channel, factors}});
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

#include <cmath>

#include "base/error.h"
#include "graph/ops/batch_norm.h"
#include "kernels/cuda/channels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/map_channels.h"
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
  using Element = T;
  static constexpr int kInputs = 1;
  Channels of;
  const T* inputs[1];

  template <int kWidth>
  struct Add {
    double centres[kWidth];
    SF_HOST_DEVICE void operator()(int i, gpu::NoRow, const float (&x)[1], double (&sums)[2]) const {
      const double deviation = x[0] - centres[i];
      sums[0] += deviation;
      sums[1] = std::fma(deviation, deviation, sums[1]);
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Add<kWidth> of_channels(std::int64_t c) const {
    Add<kWidth> add;
    for (int i = 0; i < kWidth; ++i) add.centres[i] = centre_of(inputs[0], of, c + i);
    return add;
  }
  SF_HOST_DEVICE gpu::NoRow of_row(std::int64_t) const { return {}; }
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

/// Mean and biased variance from these, and the factor.
template <class T>
struct WriteStatistics {
  Channels of;
  const T* x;
  float *mean, *variance;
  WriteFactors write_factors;

  SF_HOST_DEVICE void operator()(std::int64_t c, const double (&sums)[2]) const {
    const double count = of.count() > 0 ? static_cast<double>(of.count()) : 1.0;
    const double value = (sums[1] - sums[0] * (sums[0] / count)) / count;
    mean[c] = static_cast<float>(centre_of(x, of, c) + sums[0] / count);
    variance[c] = static_cast<float>(value < 0 ? 0.0 : value);
    write_factors(c);
  }
};

/// y from x.
template <bool relu>
struct Normalize {
  const float *mean, *factor, *shift;

  template <int kWidth>
  struct Of {
    gpu::Floats<kWidth> mean, factor, shift;
    SF_HOST_DEVICE float operator()(int i, const float (&x)[1]) const {
      const float value = formulas::batch_normalized(x[0], mean[i], factor[i], shift[i]);
      return relu && value <= 0.0F ? 0.0F : value;  // NaN passes
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Of<kWidth> of_channels(std::int64_t c) const {
    return {gpu::load_floats<kWidth>(mean + c), gpu::load_floats<kWidth>(factor + c),
            gpu::load_floats<kWidth>(shift + c)};
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
                           Deviations<T>{of, {x}}, WriteStatistics<T>{of, x, mean, variance, write_factors});
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
  using Element = T;
  static constexpr int kInputs = 2;
  const T* inputs[2];  // dy, x
  PerChannel of;

  template <int kWidth>
  struct Add {
    gpu::Floats<kWidth> mean, factor, shift;  // the last two with relu alone
    SF_HOST_DEVICE void operator()(int i, gpu::NoRow, const float (&values)[2], double (&sums)[2]) const {
      const float dy = values[0], x = values[1];
      const double arrived = relu ? arriving<relu>(dy, x, mean[i], factor[i], shift[i]) : dy;
      sums[0] += arrived;
      // The product of two floats is a double without being rounded.
      sums[1] = std::fma(arrived, static_cast<double>(x - mean[i]), sums[1]);
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Add<kWidth> of_channels(std::int64_t c) const {
    const auto mean = gpu::load_floats<kWidth>(of.mean + c);
    if (!relu) return {mean, {}, {}};
    return {mean, gpu::load_floats<kWidth>(of.factor + c), gpu::load_floats<kWidth>(of.shift + c)};
  }
  SF_HOST_DEVICE gpu::NoRow of_row(std::int64_t) const { return {}; }
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

/// dx from dy and x.
template <bool relu>
struct InputGradient {
  PerChannel of;
  const float *mean_dy, *x_factor;

  template <int kWidth>
  struct Of {
    gpu::Floats<kWidth> mean, factor, shift, mean_dy, x_factor;
    SF_HOST_DEVICE float operator()(int i, const float (&values)[2]) const {
      const float dy = values[0], x = values[1];
      const float arrived = arriving<relu>(dy, x, mean[i], factor[i], relu ? shift[i] : 0.0F);
      return formulas::batch_norm_dx(arrived, x, mean[i], factor[i], {mean_dy[i], x_factor[i]});
    }
  };
  template <int kWidth>
  SF_HOST_DEVICE Of<kWidth> of_channels(std::int64_t c) const {
    Of<kWidth> channels{gpu::load_floats<kWidth>(of.mean + c),
                        gpu::load_floats<kWidth>(of.factor + c),
                        {},
                        gpu::load_floats<kWidth>(mean_dy + c),
                        gpu::load_floats<kWidth>(x_factor + c)};
    if (relu) channels.shift = gpu::load_floats<kWidth>(of.shift + c);
    return channels;
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
    gpu::sum_channels<2>(arguments.queue, ChannelCut(of), part(partials_at), Arrivals<T, relu>{{dy, x}, per_channel},
                         WriteSums{scale, variance, options.epsilon, through_statistics, output(1), output(2), factor,
                                   mean_dy, x_factor});
    gpu::launch_map_channels(arguments.queue,
                             gpu::MapChannels<T, 2, InputGradient<relu>>{
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

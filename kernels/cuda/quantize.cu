#include "graph/ops/quantize.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/quantized_element.h"

namespace sectionflow {
namespace {

/// y[i] = function(x[i], scale of its channel).
template <class X, class Y, class Function>
struct MapScaled {
  Function function;
  const X* x;
  const float* scale;
  Y* y;
  gpu::Divisor inner, channels;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t channel = inner.quotient(i);
    channel = channels.cut(channel);
    y[i] = static_cast<Y>(function(x[i], scale[channel]));
  }
};

template <class X, class Y, class Function>
std::unique_ptr<Kernel> scaled_integers_kernel(const KernelRequest& request, const Function& function) {
  const ScaledAxes axes(request.inputs[0].shape, request.inputs[1].shape, request.node.options<QuantizeOptions>().axis);
  return function_kernel([=](const KernelArguments& arguments) {
    gpu::launch_each(
        arguments.queue, axes.num_elements(),
        MapScaled<X, Y, Function>{function, static_cast<const X*>(arguments.inputs[0]),
                                  static_cast<const float*>(arguments.inputs[1]), static_cast<Y*>(arguments.outputs[0]),
                                  gpu::Divisor(axes.inner), gpu::Divisor(axes.channels)});
  });
}

std::unique_ptr<Kernel> make_cuda_quantize(const KernelRequest& request) {
  const auto& options = request.node.options<QuantizeOptions>();
  return with_quantized_type(options.dtype, [&](auto element) {
    return scaled_integers_kernel<float, decltype(element)>(request, quantize_of(options));
  });
}

std::unique_ptr<Kernel> make_cuda_dequantize(const KernelRequest& request) {
  const formulas::Dequantize function{static_cast<std::int32_t>(request.node.options<QuantizeOptions>().zero_point)};
  return with_quantized_type(request.inputs[0].dtype, [&](auto element) {
    return scaled_integers_kernel<decltype(element), float>(request, function);
  });
}

template <class A, class B, class Y>
struct AddQuantized {
  formulas::QuantizedAdd add;
  const A* a;
  const B* b;
  Y* y;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    y[i] = add.requantize.template as<Y>(add.sum(static_cast<float>(a[i]), static_cast<float>(b[i])));
  }
};

std::unique_ptr<Kernel> make_cuda_quantized_add(const KernelRequest& request) {
  const auto& options = request.node.options<QuantizedAddOptions>();
  const formulas::QuantizedAdd add{options.a_factor, options.b_factor, requantize_of(options.result)};
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return with_quantized_type(request.inputs[0].dtype, [&](auto a) {
    return with_quantized_type(request.inputs[1].dtype, [&](auto b) {
      return with_quantized_type(options.result.dtype, [&](auto y) -> std::unique_ptr<Kernel> {
        using Body = AddQuantized<decltype(a), decltype(b), decltype(y)>;
        return function_kernel(
            [=](const KernelArguments& arguments) {
              gpu::launch_each(arguments.queue, count,
                               Body{add, static_cast<const decltype(a)*>(arguments.inputs[0]),
                                    static_cast<const decltype(b)*>(arguments.inputs[1]),
                                    static_cast<decltype(y)*>(arguments.outputs[0])});
            },
            {.in_place = over_input(request, 0)});
      });
    });
  });
}

}  // namespace

void add_quantize_cuda_kernels(KernelRegistry& registry) {
  registry.add("quantize", make_cuda_quantize);
  registry.add("dequantize", make_cuda_dequantize);
  registry.add("quantized_add", make_cuda_quantized_add);
}

}  // namespace sectionflow

#include "graph/nodes/quantized_convolution.h"
#include "graph/ops/quantized_convolution.h"
#include "kernels/convolution_loop.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/positions.h"
#include "kernels/function_kernel.h"
#include "kernels/quantized_element.h"

// The same integers as on the CPU, by plain loops: exact, and not fast.

namespace sectionflow {
namespace {

template <class X, class Y>
struct QuantizedConvolution {
  ConvolutionLoop loop;
  const X* x;
  const std::int8_t* w;
  const float *factor, *bias;
  const void* residual;
  Dtype residual_dtype;
  float residual_factor;
  formulas::Requantize requantize;
  Y* y;
  gpu::Divisor filters, group_filters, columns, rows, planes;

  /// The sum of the element of filter `f` at the place {d, h, v} of an image.
  SF_HOST_DEVICE std::int32_t sum(std::int64_t image, const std::int64_t (&out)[3], std::int64_t f) const {
    const WindowAxis* axes = loop.axes;
    const std::int64_t group = group_filters.quotient(f);
    std::int32_t sum = 0;
    std::int64_t tap = 0;
    for (std::int64_t i = 0; i < axes[0].window; ++i) {
      for (std::int64_t j = 0; j < axes[1].window; ++j) {
        for (std::int64_t k = 0; k < axes[2].window; ++k, ++tap) {
          const std::int64_t d = element_under(axes[0], out[0], i), h = element_under(axes[1], out[1], j),
                             v = element_under(axes[2], out[2], k);
          if (d < 0 || h < 0 || v < 0) continue;
          const std::int64_t pixel = ((image * axes[0].size + d) * axes[1].size + h) * axes[2].size + v;
          const X* channels = x + pixel * loop.channels() + group * loop.group_channels;
          const std::int8_t* column = w + tap * loop.group_channels * loop.filters() + f;
          for (std::int64_t c = 0; c < loop.group_channels; ++c) {
            sum += static_cast<std::int32_t>(channels[c]) * static_cast<std::int32_t>(column[c * loop.filters()]);
          }
        }
      }
    }
    return sum;
  }
  SF_HOST_DEVICE float residual_at(std::int64_t i) const {
    if (residual_dtype == Dtype::i8) return static_cast<const std::int8_t*>(residual)[i];
    if (residual_dtype == Dtype::u8) return static_cast<const std::uint8_t*>(residual)[i];
    return static_cast<const float*>(residual)[i];
  }

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t image = i;
    const std::int64_t f = filters.cut(image), v = columns.cut(image), h = rows.cut(image), d = planes.cut(image);
    const std::int64_t out[3] = {d, h, v};
    float value = static_cast<float>(sum(image, out, f)) * factor[f] + bias[f];
    if (residual != nullptr) value = value + residual_at(i) * residual_factor;
    y[i] = requantize.template as<Y>(value);
  }
};

std::unique_ptr<Kernel> make_cuda_quantized(const KernelRequest& request) {
  const QuantizedProblem problem = quantized_problem(request.node, request.inputs[0].shape, request.inputs[1].shape);
  const ConvolutionLoop loop(convolution_geometry(problem.x, problem.w, problem.convolution, request.node.label()));
  const bool has_residual = request.inputs.size() > 4;
  const Dtype residual_dtype = has_residual ? request.inputs[4].dtype : Dtype::f32;
  const std::int64_t count = request.outputs[0].shape.num_elements();
  const formulas::Requantize requantize = requantize_of(problem.product.result);
  const float residual_factor = problem.product.residual_factor;
  FunctionKernelOptions options;
  if (has_residual) options.in_place = over_input(request, 4);
  const auto make = [&](auto x, auto y) -> std::unique_ptr<Kernel> {
    using X = decltype(x);
    using Y = decltype(y);
    return function_kernel(
        [=](const KernelArguments& arguments) {
          gpu::launch_each(
              arguments.queue, count,
              QuantizedConvolution<X, Y>{
                  loop, static_cast<const X*>(arguments.inputs[0]),
                  static_cast<const std::int8_t*>(arguments.inputs[1]), static_cast<const float*>(arguments.inputs[2]),
                  static_cast<const float*>(arguments.inputs[3]), has_residual ? arguments.inputs[4] : nullptr,
                  residual_dtype, residual_factor, requantize, static_cast<Y*>(arguments.outputs[0]),
                  gpu::Divisor(loop.filters()), gpu::Divisor(loop.group_filters), gpu::Divisor(loop.axes[2].out),
                  gpu::Divisor(loop.axes[1].out), gpu::Divisor(loop.axes[0].out)});
        },
        options);
  };
  return with_quantized_type(problem.product.result.dtype, [&](auto y) {
    return request.inputs[0].dtype == Dtype::u8 ? make(std::uint8_t{}, y) : make(std::int8_t{}, y);
  });
}

}  // namespace

void add_quantized_convolution_cuda_kernels(KernelRegistry& registry) {
  for (const char* op : {"quantized_conv2d", "quantized_conv3d", "quantized_matmul"}) {
    registry.add(op, make_cuda_quantized);
  }
}

}  // namespace sectionflow

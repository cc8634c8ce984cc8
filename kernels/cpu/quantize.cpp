#include "graph/ops/quantize.h"

#include <cstdint>

#include "device/parallel.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/quantized_element.h"

namespace sectionflow {
namespace {

/// y[i] = function(x[i], scale of its channel).
template <class X, class Y, class Function>
void map_scaled(const ScaledAxes& axes, const Function& function, const X* x, const float* scale, Y* y) {
  if (axes.channels == 1) {
    parallel_for(axes.num_elements(), kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
      in_wide_vectors([=] {
        const float of_all = scale[0];
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<Y>(function(x[i], of_all));
      });
    });
    return;
  }
  // Rows of channels where these are the last axis, else rows of one channel each.
  const bool is_last = axes.inner == 1;
  const std::int64_t rows = is_last ? axes.outer : axes.outer * axes.channels;
  const std::int64_t width = is_last ? axes.channels : axes.inner;
  if (width == 0) return;
  const std::int64_t grain = std::max<std::int64_t>(1, kParallelGrain / width);
  parallel_for(rows, grain, [=](std::int64_t begin, std::int64_t end) {
    in_wide_vectors([=] {
      for (std::int64_t row = begin; row < end; ++row) {
        const X* from = x + row * width;
        Y* to = y + row * width;
        const float of_row = scale[is_last ? 0 : row % axes.channels];
        if (is_last) {
#pragma omp simd
          for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<Y>(function(from[i], scale[i]));
        } else {
#pragma omp simd
          for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<Y>(function(from[i], of_row));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> make_quantize(const KernelRequest& request) {
  const auto& options = request.node.options<QuantizeOptions>();
  const ScaledAxes axes(request.inputs[0].shape, request.inputs[1].shape, options.axis);
  return with_quantized_type(options.dtype, [&](auto element) {
    using Y = decltype(element);
    return function_kernel([axes, function = quantize_of(options)](const KernelArguments& arguments) {
      map_scaled(axes, function, static_cast<const float*>(arguments.inputs[0]),
                 static_cast<const float*>(arguments.inputs[1]), static_cast<Y*>(arguments.outputs[0]));
    });
  });
}

std::unique_ptr<Kernel> make_dequantize(const KernelRequest& request) {
  const auto& options = request.node.options<QuantizeOptions>();
  const ScaledAxes axes(request.inputs[0].shape, request.inputs[1].shape, options.axis);
  const formulas::Dequantize function{static_cast<std::int32_t>(options.zero_point)};
  return with_quantized_type(request.inputs[0].dtype, [&](auto element) {
    using X = decltype(element);
    return function_kernel([=](const KernelArguments& arguments) {
      map_scaled(axes, function, static_cast<const X*>(arguments.inputs[0]),
                 static_cast<const float*>(arguments.inputs[1]), static_cast<float*>(arguments.outputs[0]));
    });
  });
}

template <class A, class B, class Y>
std::unique_ptr<Kernel> quantized_add_kernel(const KernelRequest& request, const formulas::QuantizedAdd& add) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return function_kernel(
      [=](const KernelArguments& arguments) {
        const auto* a = static_cast<const A*>(arguments.inputs[0]);
        const auto* b = static_cast<const B*>(arguments.inputs[1]);
        auto* y = static_cast<Y*>(arguments.outputs[0]);
        parallel_for(count, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
          in_wide_vectors([=] {
#pragma omp simd
            for (std::int64_t i = begin; i < end; ++i) {
              y[i] = add.requantize.as<Y>(add.sum(static_cast<float>(a[i]), static_cast<float>(b[i])));
            }
          });
        });
      },
      {.in_place = over_input(request, 0)});
}

std::unique_ptr<Kernel> make_quantized_add(const KernelRequest& request) {
  const auto& options = request.node.options<QuantizedAddOptions>();
  const formulas::QuantizedAdd add{options.a_factor, options.b_factor, requantize_of(options.result)};
  return with_quantized_type(request.inputs[0].dtype, [&](auto a) {
    return with_quantized_type(request.inputs[1].dtype, [&](auto b) {
      return with_quantized_type(options.result.dtype, [&](auto y) {
        return quantized_add_kernel<decltype(a), decltype(b), decltype(y)>(request, add);
      });
    });
  });
}

}  // namespace

void add_quantize_cpu_kernels(KernelRegistry& registry) {
  registry.add("quantize", make_quantize);
  registry.add("dequantize", make_dequantize);
  registry.add("quantized_add", make_quantized_add);
}

}  // namespace sectionflow

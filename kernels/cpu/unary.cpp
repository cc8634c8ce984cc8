#include "graph/ops/unary.h"

#include <algorithm>
#include <cstdint>

#include "device/parallel.h"
#include "graph/nodes/unary.h"
#include "kernels/convert_element.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/formulas/unary.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return map_kernel(request, Formula());
}

std::unique_ptr<Kernel> make_neg(const KernelRequest& request) {
  if (is_floating(request.inputs[0].dtype)) return make<formulas::Negate>(request);
  return broadcast_kernel<std::uint64_t, std::uint64_t>(request, formulas::Negate());
}

template <class OfErf, class OfTanh>
std::unique_ptr<Kernel> make_gelu(const KernelRequest& request) {
  const bool of_tanh = request.node.options<GeluOptions>().approximation == Gelu::tanh;
  return of_tanh ? map_kernel(request, OfTanh()) : map_kernel(request, OfErf());
}

template <class Formula>
std::unique_ptr<Kernel> make_clip(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return map_kernel(request, Formula{low, high});
}

template <class Formula, class Near, class T>
void turn_stripe(const T* x, T* y, std::int64_t count) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = vector_math::magnitude(static_cast<float>(x[i]));
    most = most < magnitude ? magnitude : most;
  }
  constexpr OfStored<T, Formula> any{};
  constexpr OfStored<T, Near> near{};
  if (most < vector_math::kFar) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = near(x[i]);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = any(x[i]);
  }
}

/// Sines: where all numbers of a stripe are near 0, what takes larger ones is left out. The bits are the same.
template <class Formula, class Near>
std::unique_ptr<Kernel> make_turning(const KernelRequest& request) {
  const std::int64_t num_elements = request.outputs[0].shape.num_elements();
  return with_stored_type(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return function_kernel(
        [num_elements](const KernelArguments& arguments) {
          const T* x = static_cast<const T*>(arguments.inputs[0]);
          T* y = static_cast<T*>(arguments.outputs[0]);
          parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
            constexpr std::int64_t kStripe = 2048;
            for (std::int64_t first = begin; first < end; first += kStripe) {
              turn_stripe<Formula, Near>(x + first, y + first, std::min(kStripe, end - first));
            }
          });
        },
        {.in_place = {{0, 0}}});
  });
}

template <class Formula>
std::unique_ptr<Kernel> make_leaky_relu(const KernelRequest& request) {
  return map_kernel(request, Formula{request.node.options<LeakyReluOptions>().negative_slope});
}

template <class Formula>
std::unique_ptr<Kernel> make_elu(const KernelRequest& request) {
  return map_kernel(request, Formula{request.node.options<EluOptions>().alpha});
}

std::unique_ptr<Kernel> make_is_finite(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype, [&](auto element) {
    return broadcast_kernel<bool, decltype(element)>(request, formulas::IsFinite());
  });
}

std::unique_ptr<Kernel> make_not(const KernelRequest& request) {
  return broadcast_kernel<bool, bool>(request, formulas::Not());
}

template <class From, class To>
std::unique_ptr<Kernel> make_conversion(std::int64_t num_elements) {
  return function_kernel([num_elements](const KernelArguments& arguments) {
    const From* x = static_cast<const From*>(arguments.inputs[0]);
    To* y = static_cast<To*>(arguments.outputs[0]);
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) y[i] = convert_element<To>(x[i]);
    });
  });
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const Dtype from = request.inputs[0].dtype;
  const Dtype to = request.outputs[0].dtype;
  if (from == to) return copy_kernel(request.outputs[0].bytes());
  // Never in place otherwise: elements of two C++ types in the same bytes would be at the mercy of alias analysis.
  return with_element_type(from, [&](auto from_element) {
    return with_element_type(to, [&](auto to_element) {
      return make_conversion<decltype(from_element), decltype(to_element)>(request.inputs[0].shape.num_elements());
    });
  });
}

}  // namespace

void add_unary_cpu_kernels(KernelRegistry& registry) {
  registry.add("neg", make_neg, Bf16::native);
  registry.add("square", make<formulas::Square>, Bf16::native);
  registry.add("square_grad", make<formulas::SquareGrad>, Bf16::native);
  registry.add("sqrt", make<formulas::Sqrt>, Bf16::native);
  registry.add("sqrt_grad", make<formulas::SqrtGrad>, Bf16::native);
  registry.add("rsqrt", make<formulas::Rsqrt>, Bf16::native);
  registry.add("rsqrt_grad", make<formulas::RsqrtGrad>, Bf16::native);
  registry.add("exp", make<formulas::Exp>, Bf16::native);
  registry.add("log", make<formulas::Log>, Bf16::native);
  registry.add("expm1", make<formulas::Expm1>, Bf16::native);
  registry.add("log1p", make<formulas::Log1p>, Bf16::native);
  registry.add("abs", make<formulas::Abs>, Bf16::native);
  registry.add("sign", make<formulas::Sign>, Bf16::native);
  registry.add("sin", make_turning<formulas::Sin, formulas::SinNear>, Bf16::native);
  registry.add("cos", make_turning<formulas::Cos, formulas::CosNear>, Bf16::native);
  registry.add("erf", make<formulas::Erf>, Bf16::native);
  registry.add("is_finite", make_is_finite, Bf16::native);
  registry.add("logical_not", make_not);
  registry.add("relu", make<formulas::Relu>, Bf16::native);
  registry.add("relu_grad", make<formulas::ReluGrad>, Bf16::native);
  registry.add("tanh", make<formulas::Tanh>, Bf16::native);
  registry.add("tanh_grad", make<formulas::TanhGrad>, Bf16::native);
  registry.add("sigmoid", make<formulas::Sigmoid>, Bf16::native);
  registry.add("sigmoid_grad", make<formulas::SigmoidGrad>, Bf16::native);
  registry.add("silu", make<formulas::Silu>, Bf16::native);
  registry.add("silu_grad", make<formulas::SiluGrad>, Bf16::native);
  registry.add("gelu", make_gelu<formulas::Gelu, formulas::GeluOfTanh>, Bf16::native);
  registry.add("gelu_grad", make_gelu<formulas::GeluGrad, formulas::GeluOfTanhGrad>, Bf16::native);
  registry.add("softplus", make<formulas::Softplus>, Bf16::native);
  registry.add("mish", make<formulas::Mish>, Bf16::native);
  registry.add("mish_grad", make<formulas::MishGrad>, Bf16::native);
  registry.add("hard_swish", make<formulas::HardSwish>, Bf16::native);
  registry.add("hard_swish_grad", make<formulas::HardSwishGrad>, Bf16::native);
  registry.add("leaky_relu", make_leaky_relu<formulas::LeakyRelu>, Bf16::native);
  registry.add("leaky_relu_grad", make_leaky_relu<formulas::LeakyReluGrad>, Bf16::native);
  registry.add("elu", make_elu<formulas::Elu>, Bf16::native);
  registry.add("elu_grad", make_elu<formulas::EluGrad>, Bf16::native);
  registry.add("clip", make_clip<formulas::Clip>, Bf16::native);
  registry.add("clip_grad", make_clip<formulas::ClipGrad>, Bf16::native);
  registry.add("cast", make_cast, Bf16::native);
}

}  // namespace sectionflow

#include <cstdint>

#include "graph/nodes/unary.h"
#include "graph/ops/unary.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/formulas/unary.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return gpu::linked<Formula>(request, gpu::map_kernel(request, Formula()));
}

std::unique_ptr<Kernel> make_neg(const KernelRequest& request) {
  if (request.inputs[0].dtype != Dtype::i64) return make<formulas::Negate>(request);
  return gpu::broadcast_kernel<std::uint64_t, std::uint64_t>(request, formulas::Negate());
}

template <class OfErf, class OfTanh>
std::unique_ptr<Kernel> make_gelu(const KernelRequest& request) {
  const bool of_tanh = request.node.options<GeluOptions>().approximation == Gelu::tanh;
  return of_tanh ? make<OfTanh>(request) : make<OfErf>(request);
}

template <class Formula>
std::unique_ptr<Kernel> make_clip(const KernelRequest& request) {
  const auto [low, high] = request.node.options<ClipOptions>();
  return gpu::map_kernel(request, Formula{low, high});
}

template <class Formula>
std::unique_ptr<Kernel> make_leaky_relu(const KernelRequest& request) {
  return gpu::map_kernel(request, Formula{request.node.options<LeakyReluOptions>().negative_slope});
}

template <class Formula>
std::unique_ptr<Kernel> make_elu(const KernelRequest& request) {
  return gpu::map_kernel(request, Formula{request.node.options<EluOptions>().alpha});
}

std::unique_ptr<Kernel> make_is_finite(const KernelRequest& request) {
  return with_stored_type(request.inputs[0].dtype, [&](auto element) {
    return gpu::broadcast_kernel<bool, decltype(element)>(request, formulas::IsFinite());
  });
}

std::unique_ptr<Kernel> make_not(const KernelRequest& request) {
  return gpu::broadcast_kernel<bool, bool>(request, formulas::Not());
}

template <class From, class To>
std::unique_ptr<Kernel> make_conversion(std::int64_t count) {
  return function_kernel([count](const KernelArguments& arguments) {
    gpu::launch_conversion<From, To>(arguments.queue, count, arguments.inputs[0], arguments.outputs[0]);
  });
}

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const Dtype from = request.inputs[0].dtype;
  const Dtype to = request.outputs[0].dtype;
  if (from == to) return gpu::copy_kernel(request.outputs[0].bytes());
  // Never in place otherwise: elements of two C++ types in the same bytes would be at the mercy of alias analysis.
  return with_element_type(from, [&](auto from_element) {
    return with_element_type(to, [&](auto to_element) {
      return make_conversion<decltype(from_element), decltype(to_element)>(request.inputs[0].shape.num_elements());
    });
  });
}

}  // namespace

void add_unary_cuda_kernels(KernelRegistry& registry) {
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
  registry.add("sin", make<formulas::Sin>, Bf16::native);
  registry.add("cos", make<formulas::Cos>, Bf16::native);
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

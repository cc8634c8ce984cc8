#include "graph/ops/unary.h"

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
  if (request.inputs[0].dtype == Dtype::f32) return make<formulas::Negate>(request);
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
  registry.add("neg", make_neg);
  registry.add("square", make<formulas::Square>);
  registry.add("square_grad", make<formulas::SquareGrad>);
  registry.add("sqrt", make<formulas::Sqrt>);
  registry.add("sqrt_grad", make<formulas::SqrtGrad>);
  registry.add("rsqrt", make<formulas::Rsqrt>);
  registry.add("rsqrt_grad", make<formulas::RsqrtGrad>);
  registry.add("exp", make<formulas::Exp>);
  registry.add("log", make<formulas::Log>);
  registry.add("relu", make<formulas::Relu>);
  registry.add("relu_grad", make<formulas::ReluGrad>);
  registry.add("tanh", make<formulas::Tanh>);
  registry.add("tanh_grad", make<formulas::TanhGrad>);
  registry.add("sigmoid", make<formulas::Sigmoid>);
  registry.add("sigmoid_grad", make<formulas::SigmoidGrad>);
  registry.add("silu", make<formulas::Silu>);
  registry.add("silu_grad", make<formulas::SiluGrad>);
  registry.add("gelu", make_gelu<formulas::Gelu, formulas::GeluOfTanh>);
  registry.add("gelu_grad", make_gelu<formulas::GeluGrad, formulas::GeluOfTanhGrad>);
  registry.add("clip", make_clip<formulas::Clip>);
  registry.add("clip_grad", make_clip<formulas::ClipGrad>);
  registry.add("cast", make_cast, Bf16::native);
}

}  // namespace sectionflow

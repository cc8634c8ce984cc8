#include "graph/ops/activation.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/formulas/activation.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return gpu::linked<Formula>(request, gpu::map_kernel(request, Formula()));
}

template <class OfErf, class OfTanh>
std::unique_ptr<Kernel> make_gelu(const KernelRequest& request) {
  const bool of_tanh = request.node.options<GeluOptions>().approximation == Gelu::tanh;
  return of_tanh ? make<OfTanh>(request) : make<OfErf>(request);
}

}  // namespace

void add_activation_cuda_kernels(KernelRegistry& registry) {
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
}

}  // namespace sectionflow

#include "graph/ops/unary.h"
#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/formulas/unary.h"

namespace sectionflow {
namespace {

template <class Formula>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return gpu::map_kernel(request, Formula());
}

std::unique_ptr<Kernel> make_neg(const KernelRequest& request) {
  if (request.inputs[0].dtype != Dtype::i64) return make<formulas::Negate>(request);
  return gpu::broadcast_kernel<std::uint64_t, std::uint64_t>(request, formulas::Negate());
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
}

}  // namespace sectionflow

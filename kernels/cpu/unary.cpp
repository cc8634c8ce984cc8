#include "graph/ops/unary.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/formulas/unary.h"
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
}

}  // namespace sectionflow

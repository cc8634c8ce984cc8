#include "graph/ops/unary.h"

#include <cmath>

#include "kernels/cpu/elementwise.h"
#include "kernels/kernel_registry.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_neg(const KernelRequest& request) {
  if (request.inputs[0].dtype == Dtype::f32) {
    return map_kernel(request, [](float x) { return -x; });
  }
  // Unsigned, so that the lowest number wraps around.
  return broadcast_kernel<std::uint64_t, std::uint64_t>(request, [](std::uint64_t x) { return 0 - x; });
}

std::unique_ptr<Kernel> make_square(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return x * x; });
}
std::unique_ptr<Kernel> make_square_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float x) { return dy * (x + x); });
}

std::unique_ptr<Kernel> make_sqrt(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return std::sqrt(x); });
}
std::unique_ptr<Kernel> make_sqrt_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float y) { return dy * 0.5F / y; });
}

std::unique_ptr<Kernel> make_rsqrt(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return 1.0F / std::sqrt(x); });
}
std::unique_ptr<Kernel> make_rsqrt_grad(const KernelRequest& request) {
  return map_kernel(request, [](float dy, float y) { return dy * -0.5F * y * (y * y); });
}

std::unique_ptr<Kernel> make_exp(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return vector_math::exp(x); });
}

std::unique_ptr<Kernel> make_log(const KernelRequest& request) {
  return map_kernel(request, [](float x) { return vector_math::log(x); });
}

}  // namespace

void add_unary_cpu_kernels(KernelRegistry& registry) {
  registry.add("neg", make_neg);
  registry.add("square", make_square);
  registry.add("square_grad", make_square_grad);
  registry.add("sqrt", make_sqrt);
  registry.add("sqrt_grad", make_sqrt_grad);
  registry.add("rsqrt", make_rsqrt);
  registry.add("rsqrt_grad", make_rsqrt_grad);
  registry.add("exp", make_exp);
  registry.add("log", make_log);
}

}  // namespace sectionflow

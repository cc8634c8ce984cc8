#include "kernels/cuda/broadcast.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

/// The kernels as packs a thread, which may be links of chains.
struct LinkedFunctions {
  template <class Formula>
  static std::unique_ptr<Kernel> map(const KernelRequest& request, const Formula& formula) {
    return gpu::map_kernel(request, formula);
  }
  template <class Formula, class Near, class BelowFar>
  static std::unique_ptr<Kernel> sine(const KernelRequest& request) {
    return gpu::map_kernel(request, Formula());
  }
  template <class Y, class... X, class Function>
  static std::unique_ptr<Kernel> broadcast(const KernelRequest& request, Function function) {
    return gpu::broadcast_kernel<Y, X...>(request, function);
  }
  template <class Formula>
  static std::unique_ptr<Kernel> linked(const KernelRequest& request, std::unique_ptr<Kernel> kernel) {
    return gpu::linked<Formula>(request, std::move(kernel));
  }
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) { return gpu::copy_kernel(num_bytes); }
  template <class From, class To>
  static std::unique_ptr<Kernel> conversion(std::int64_t count) {
    return function_kernel([count](const KernelArguments& arguments) {
      gpu::launch_conversion<From, To>(arguments.queue, count, arguments.inputs[0], arguments.outputs[0]);
    });
  }
};

}  // namespace

void add_unary_cuda_kernels(KernelRegistry& registry) {
  ElementwiseFamily<LinkedFunctions>::add_unary(registry);
}

}  // namespace sectionflow

#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

struct LinkedFunctions : gpu::LinkedElements {
  template <class Formula, class Near, class BelowFar>
  static std::unique_ptr<Kernel> sine(const KernelRequest& request) {
    return gpu::map_kernel(request, Formula());
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

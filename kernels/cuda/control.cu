#include "graph/ops/control.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

constexpr std::size_t kBranchFlag = 2;

/// The kernel whose output is this input.
std::unique_ptr<Kernel> copy_of_branch(const KernelRequest& request, int input) {
  return function_kernel(
      [input, num_bytes = request.outputs[0].bytes()](const KernelArguments& arguments) {
        gpu::copy_bytes(arguments.queue, arguments.outputs[0], arguments.inputs[static_cast<std::size_t>(input)],
                        num_bytes);
      },
      {.in_place = {{input, 0}}});
}

std::unique_ptr<Kernel> passed_branch_value(const KernelRequest& request) {
  return gpu::copy_kernel(request.outputs[0].bytes());
}

std::unique_ptr<Kernel> merged_branches(const KernelRequest& request) {
  return copy_of_branch(request, host_boolean(request, kBranchFlag) ? 0 : 1);
}

template <class T>
struct ZerosOfBranch {
  T* y;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = convert_element<T>(0.0); }
};

template <bool when>
std::unique_ptr<Kernel> left_branch(const KernelRequest& request) {
  if (host_boolean(request, kBranchFlag) == when) return passed_branch_value(request);
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return with_element_type(request.outputs[0].dtype, [=](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([count](const KernelArguments& arguments) {
      gpu::launch_each(arguments.queue, count, ZerosOfBranch<T>{static_cast<T*>(arguments.outputs[0])});
    });
  });
}

}  // namespace

void add_control_cuda_kernels(KernelRegistry& registry) {
  registry.add("branch_value", passed_branch_value, Bf16::native);
  registry.add("merge_branches", merged_branches, Bf16::native);
  registry.add("leave_then", left_branch<true>, Bf16::native);
  registry.add("leave_otherwise", left_branch<false>, Bf16::native);
  // The condition is copied to the host by who executes the node.
  registry.add("assert_that", passed_branch_value, Bf16::native);
}

}  // namespace sectionflow

#include "graph/ops/control.h"

#include <cstddef>

#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

constexpr std::size_t kBranchFlag = 2;

/// The kernel whose output is this input.
std::unique_ptr<Kernel> copy_of_branch(const KernelRequest& request, int input) {
  return function_kernel(
      [input, num_bytes = request.outputs[0].bytes()](const KernelArguments& arguments) {
        copy_bytes(arguments.outputs[0], arguments.inputs[static_cast<std::size_t>(input)], num_bytes);
      },
      {.in_place = {{input, 0}}});
}

std::unique_ptr<Kernel> passed_branch_value(const KernelRequest& request) {
  return copy_of_branch(request, 0);
}

std::unique_ptr<Kernel> merged_branches(const KernelRequest& request) {
  return copy_of_branch(request, host_boolean(request, kBranchFlag) ? 0 : 1);
}

template <bool when>
std::unique_ptr<Kernel> left_branch(const KernelRequest& request) {
  if (host_boolean(request, kBranchFlag) == when) return copy_of_branch(request, 0);
  return function_kernel([num_bytes = request.outputs[0].bytes()](const KernelArguments& arguments) {
    zero_bytes(arguments.outputs[0], num_bytes);
  });
}

}  // namespace

void add_control_cpu_kernels(KernelRegistry& registry) {
  registry.add("branch_value", passed_branch_value, Bf16::native);
  registry.add("merge_branches", merged_branches, Bf16::native);
  registry.add("leave_then", left_branch<true>, Bf16::native);
  registry.add("leave_otherwise", left_branch<false>, Bf16::native);
  registry.add("assert_that", passed_branch_value, Bf16::native);
}

}  // namespace sectionflow

#include "kernels/kernel_registry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "device/cpu_device.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

TEST(KernelRegistry, EveryOpThatNeedsAKernelHasOneOnTheCpu) {
  for (const auto& [name, definition] : op_registry().all()) {
    EXPECT_EQ(kernel_registry(DeviceKind::cpu).has(name), definition.has_kernel) << name;
  }
}

TEST(KernelRegistry, TheseOpsOfCudaHaveNoKernelOfOurOwnForBf16) {
  const std::set<std::string> widened = {"ctc_loss", "ctc_loss_grad", "pow", "pow_grad_base", "pow_grad_exponent",
                                         // Where no library takes them as they are; these tests have none.
                                         "add_matmul", "matmul", "matmul_over_rows", "conv2d", "conv2d_backward_input",
                                         "conv2d_backward_filter", "conv3d", "conv3d_backward_input",
                                         "conv3d_backward_filter", "conv_transpose2d", "conv_transpose3d"};
  const std::set<std::string> of_f32_alone = {
      "accumulated",        "assign_add", "average_weights", "update_moving_average", "clip_scale",   "global_norm",
      "global_norm_grad",   "one_hot",    "random",          "random_like",           "fused_conv2d", "fused_conv3d",
      "with_packed_weights"};
  const std::set<std::string> of_booleans = {"logical_and", "logical_not", "logical_or", "logical_xor"};
  for (const auto& [name, definition] : op_registry().all()) {
    if (!definition.has_kernel) continue;
    // Ranks meet on hosts.
    if (definition.communicates || name == "assign_shard") {
      EXPECT_FALSE(cuda_kernels().has(name)) << name;
      continue;
    }
    ASSERT_TRUE(cuda_kernels().has(name)) << name;
    const bool of_integers = name.starts_with("quantize") || name == "dequantize";
    const bool takes_none = of_f32_alone.contains(name) || of_booleans.contains(name) || of_integers;
    EXPECT_NE(cuda_kernels().has_native_bf16(name), widened.contains(name) || takes_none) << name;
  }
}

std::unique_ptr<Kernel> takes_nothing(const KernelRequest&) {
  return nullptr;
}
template <int bytes>
std::unique_ptr<Kernel> takes_all(const KernelRequest&) {
  return function_kernel([](const KernelArguments&) {}, {.workspace_bytes = bytes});
}

TEST(KernelRegistry, TheFirstFactoryThatTakesARequestMakesTheKernel) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), y = relu(x);
  CpuDevice device(1);
  const KernelRequest request{
      .node = y.node(), .inputs = {x.type()}, .outputs = {y.type()}, .host_booleans = {{}}, .device = device};
  KernelRegistry registry;
  registry.add("relu", takes_nothing);
  try {
    registry.make(request);
    ADD_FAILURE() << "a kernel came from nowhere";
  } catch (const ArgumentError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("relu 'relu'"), std::string::npos) << text;
    EXPECT_NE(text.find("f32[2,3]"), std::string::npos) << text;
  }
  registry.add("relu", takes_all<1>);
  registry.add("relu", takes_all<2>);
  EXPECT_EQ(registry.make(request)->workspace_bytes(), 1U);
}

}  // namespace
}  // namespace sectionflow

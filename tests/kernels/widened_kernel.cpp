#include "kernels/widened_kernel.h"

#include <gtest/gtest.h>

#include "device/cpu_device.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> cpu_kernel(Value y, const KernelRegistry& registry = kernel_registry(DeviceKind::cpu),
                                   Bf16 choice = Bf16::native) {
  static CpuDevice device(1);
  KernelRequest request{
      .node = y.node(), .inputs = {}, .outputs = y.node().output_types(), .host_booleans = {}, .device = device};
  for (const Value& input : y.node().inputs()) request.inputs.push_back(input.type());
  request.host_booleans.resize(request.inputs.size());
  return choice == Bf16::widened ? registry.make_widened(request) : registry.make(request);
}
std::unique_ptr<Kernel> widened_cpu_kernel(const Value& y) {
  return cpu_kernel(y, kernel_registry(DeviceKind::cpu), Bf16::widened);
}

TEST(WidenedKernel, ServesWhatHasNoKernelOfItsOwn) {
  Graph graph;
  const Value x = placeholder(graph, "x", {300, 300}, Dtype::bf16);
  EXPECT_EQ(widened_cpu_kernel(relu(x))->implementation(), "f32 for bf16: loop");
  KernelRegistry of_f32(cpu_bf16_conversions());
  of_f32.add("relu", [](const KernelRequest&) { return function_kernel([](const KernelArguments&) {}); });
  EXPECT_EQ(cpu_kernel(relu(x), of_f32)->implementation(), "f32 for bf16: loop");
  for (const Value& y : {relu(x), matmul(x, x), transpose(x, {1, 0}), add_n({x, x, x}), cast(x, Dtype::f32),
                         cast(placeholder(graph, "y", {5}), Dtype::bf16), fill(graph, {3}, 1, Dtype::bf16)}) {
    EXPECT_EQ(cpu_kernel(y)->implementation().find("f32 for bf16"), std::string::npos) << y.name();
  }
}

TEST(WidenedKernel, TakesACopyOfEachOperandThatTheF32KernelDoesNotWriteOver) {
  Graph graph;
  const Value x = placeholder(graph, "x", {64, 64}, Dtype::bf16), z = placeholder(graph, "z", {64, 64}, Dtype::bf16);
  constexpr std::size_t kCopy = 64 * 64 * sizeof(float);
  EXPECT_EQ(widened_cpu_kernel(relu(x))->workspace_bytes(), kCopy);
  EXPECT_EQ(widened_cpu_kernel(x + z)->workspace_bytes(), 2 * kCopy);
  EXPECT_EQ(widened_cpu_kernel(reduce_grad(reduce_sum(x), x, {}))->workspace_bytes() / kCopy,
            1U);  // x for its shape alone
}

TEST(WidenedKernel, OffersEveryBf16InputOfTheBytesOfABf16Output) {
  Graph graph;
  const Value x = placeholder(graph, "x", {7, 5}, Dtype::bf16), bias = placeholder(graph, "bias", {5}, Dtype::bf16);
  const auto pairs = widened_cpu_kernel(x + bias)->in_place();
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].input, 0);
  EXPECT_EQ(pairs[0].output, 0);
  EXPECT_EQ(widened_cpu_kernel(maximum(x, placeholder(graph, "z", {7, 5}, Dtype::bf16)))->in_place().size(), 2U);
}

TEST(WidenedKernel, NeedsConversions) {
  Graph graph;
  const Value x = placeholder(graph, "x", {7, 5}, Dtype::bf16);
  static CpuDevice device(1);
  const Value y = relu(x);
  const KernelRequest request{
      .node = y.node(), .inputs = {x.type()}, .outputs = {y.type()}, .host_booleans = {{}}, .device = device};
  EXPECT_TRUE(has_bf16(request));
  EXPECT_TRUE(can_be_widened(request));
  const KernelRequest of_f32 = widened_request(request);
  EXPECT_FALSE(has_bf16(of_f32));
  EXPECT_EQ(of_f32.inputs[0].text(), "f32[7,5]");
  // A registry that does not know how to convert has no kernel for bf16.
  KernelRegistry plain;
  plain.add("relu", [](const KernelRequest&) -> std::unique_ptr<Kernel> {
    ADD_FAILURE() << "a factory of f32 was asked for bf16";
    return nullptr;
  });
  EXPECT_THROW(plain.make(request), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

// Kernels that take bf16 as it is need less workspace than those of f32 between copies.

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "device/cpu_device.h"
#include "graph/nodes/attention.h"
#include "graph/nodes/indexing.h"
#include "graph/nodes/resize.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/matmul.h"
#include "graph/ops/resize.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

struct Workspaces {
  std::size_t native, widened;
};

Workspaces workspaces_of(Value y) {
  static CpuDevice device(2);
  KernelRequest request{
      .node = y.node(), .inputs = {}, .outputs = y.node().output_types(), .host_booleans = {}, .device = device};
  for (const Value& input : y.node().inputs()) request.inputs.push_back(input.type());
  request.host_booleans.resize(request.inputs.size());
  const KernelRegistry& registry = kernel_registry(DeviceKind::cpu);
  return {registry.make(request)->workspace_bytes(), registry.make_widened(request)->workspace_bytes()};
}

class Bf16Workspace : public testing::Test {
 protected:
  Value bf16(const Shape& shape) { return placeholder(graph, text_of("x", graph.num_nodes()), shape, Dtype::bf16); }

  Graph graph;
};

TEST_F(Bf16Workspace, OfAttentionIsThatOfItsTilesAndLessThanOfCopies) {
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal};
    for (const auto& [heads, length] : {std::pair(3, 9), {12, 256}, {48, 256}, {16, 1024}}) {
      const Value q = bf16({1, heads, length, 64});
      const Value y = attention(q, bf16(q.shape()), bf16(q.shape()), options);
      const Value dq = attention_grad(bf16(q.shape()), q, q, q, y.node().output(1), options).dq;
      for (const Value& value : {y, dq}) {
        const auto [native, widened] = workspaces_of(value);
        EXPECT_LT(native, widened) << value.name() << " of " << heads << " heads of " << length;
      }
    }
    const auto of_heads = [&](std::int64_t heads) {
      const Value q = bf16({1, heads, 256, 64});
      return workspaces_of(attention(q, q, q, options)).native;
    };
    EXPECT_EQ(of_heads(160), of_heads(16));
  }
}

TEST_F(Bf16Workspace, OfSumsByIndexDoesNotGrowWithTheRows) {
  const Value indices = placeholder(graph, "indices", {100}, Dtype::i32);
  const auto of_rows = [&](std::int64_t length) {
    return workspaces_of(gather_grad(bf16({100, length}), indices, bf16({1000, length})));
  };
  EXPECT_EQ(of_rows(500).native, of_rows(1).native);
  for (const std::int64_t length : {1, 2, 500}) EXPECT_LE(of_rows(length).native, of_rows(length).widened) << length;
}

TEST_F(Bf16Workspace, OfAResizeDoesNotGrowWithTheBatch) {
  const auto of_batch = [&](std::int64_t batch) {
    const Value x = bf16({batch, 9, 8, 5});
    const Resize2dOptions options{.height = 13, .width = 5, .method = ResizeMethod::bilinear};
    const Value y = resize2d(x, options);
    return std::vector{workspaces_of(y).native, workspaces_of(resize2d_grad(y, x, options)).native};
  };
  EXPECT_EQ(of_batch(64), of_batch(1));
}

TEST_F(Bf16Workspace, OfProductsDoesNotGrowWithTheBatch) {
  const auto of_batch = [&](std::int64_t batch) {
    return workspaces_of(matmul(bf16({batch, 256, 256}), bf16({batch, 256, 256})));
  };
  for (const std::int64_t batch : {200, 1000}) EXPECT_LT(of_batch(batch).native, std::size_t{20} << 20) << batch;
  EXPECT_LE(of_batch(4).native, of_batch(4).widened);
}

}  // namespace
}  // namespace sectionflow

// A program of its own: it replaces the functions of the malloc family.
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/allocation_scope.h"
#include "graph/nodes/attention.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/matmul.h"
#include "graph/op_def.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/matmul.h"
#include "tests/support/deep_convolutions.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/replaced_malloc.h"

namespace {

/// The scope of the thread that launches; threads of its team allocate on its behalf.
const sectionflow::AllocationScope* watched = nullptr;
/// What is smaller holds no part of a tensor: arguments of a call, of a team.
constexpr std::size_t kSmall = 4096;
std::atomic<int> num_large = 0;
std::atomic<std::size_t> largest = 0;

}  // namespace

namespace sectionflow::testing_support {

void observe_malloc(std::size_t num_bytes, const void*) noexcept {
  if (watched == nullptr || watched->in_library == 0 || num_bytes < kSmall) return;
  ++num_large;
  std::size_t seen = largest;
  while (seen < num_bytes && !largest.compare_exchange_weak(seen, num_bytes)) {
  }
}

namespace {

class HiddenMemory : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SF_NO_ALLOCATION_HOOK
    GTEST_SKIP() << "a sanitizer owns the allocation functions, or this is no glibc";
#endif
    watched = &allocation_scope;
    num_large = 0;
    largest = 0;
  }
  void TearDown() override {
    watched = nullptr;
  }

  /// Launches the kernel of `value` on one thread and on two, and expects that the library allocates no memory that
  /// matters.
  static void expect_none(const std::string& name, Value value) {
    for (int threads : {1, 2}) {
      num_large = 0;
      launch_ms(value, threads, 2);
      EXPECT_EQ(num_large, 0) << name << ", " << value.node().op().name << " on " << threads << " threads: up to "
                              << largest << " bytes by " << implementation_of(value, threads);
    }
  }
  static bool has(dnnl_cpu_isa_t wanted) {
    return (dnnl_get_effective_cpu_isa() & wanted) == wanted;
  }
};

TEST_F(HiddenMemory, SeesWhatOneDnnAllocates) {
  std::vector<float> a(512 * 512), b(512 * 512), c(512 * 512);
  {
    const LibraryScope library;
    ASSERT_EQ(dnnl_sgemm('T', 'N', 512, 512, 512, 1, a.data(), 512, b.data(), 512, 0, c.data(), 512), dnnl_success);
  }
  EXPECT_GT(num_large, 0);
}

TEST_F(HiddenMemory, NoneInConvolutions) {
  if (!has(dnnl_cpu_isa_avx2)) GTEST_SKIP() << "oneDNN has JIT kernels for AVX2 and better";
  for (std::int64_t channels : {1, 3, 16, 17, 64}) {
    for (std::int64_t filters : {10, 32, 64}) {
      for (std::int64_t kernel : {1, 3}) {
        for (std::int64_t stride : {1, 2}) {
          Graph graph;
          const Conv2dOptions options{.stride = {stride, stride}};
          const Value x = placeholder(graph, "x", {4, 14, 14, channels});
          const Value w = placeholder(graph, "w", {kernel, kernel, channels, filters});
          const Value y = conv2d(x, w, options);
          const Value dy = placeholder(graph, "dy", y.shape());
          const std::string name = text_of(channels, " to ", filters, ", ", kernel, "x", kernel, " /", stride);
          expect_none(name, y);
          expect_none(name, conv2d_backward_input(dy, w, x, options));
          expect_none(name, conv2d_backward_filter(dy, x, w, options));
        }
      }
    }
  }
}

TEST_F(HiddenMemory, NoneInConvolutionsWithGroupsAndDilation) {
  for (std::int64_t groups : {1, 2, 4, 16}) {
    for (std::int64_t dilation : {1, 2}) {
      for (std::int64_t stride : {1, 2}) {
        Graph graph;
        const Conv2dOptions options{.stride = {stride, stride}, .dilation = {dilation, dilation}, .groups = groups};
        const Value x = placeholder(graph, "x", {4, 14, 14, 16});
        const Value w = placeholder(graph, "w", {3, 3, 16 / groups, 32});
        const Value y = conv2d(x, w, options);
        const Value dy = placeholder(graph, "dy", y.shape());
        const std::string name = text_of(groups, " groups, dilation ", dilation, " /", stride);
        expect_none(name, y);
        expect_none(name, conv2d_backward_input(dy, w, x, options));
        expect_none(name, conv2d_backward_filter(dy, x, w, options));
      }
    }
  }
}

TEST_F(HiddenMemory, NoneInDeepAndTransposedConvolutions) {
  for_deep_and_transposed_convolutions(expect_none);
}

TEST_F(HiddenMemory, NoneInProducts) {
  if (!has(dnnl_cpu_isa_avx512_core)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  for (std::int64_t rows : {1, 64, 250}) {
    for (std::int64_t inner : {10, 17, 784}) {
      for (std::int64_t columns : {1, 10, 300, 1024}) {
        for (bool transposes_a : {false, true}) {
          for (bool transposes_b : {false, true}) {
            Graph graph;
            const Value a = placeholder(graph, "a", transposes_a ? Shape{inner, rows} : Shape{rows, inner});
            const Value b = placeholder(graph, "b", transposes_b ? Shape{columns, inner} : Shape{inner, columns});
            expect_none(text_of(rows, " x ", inner, " x ", columns, transposes_a ? ", a turned" : "",
                                transposes_b ? ", b turned" : ""),
                        matmul(a, b, {.transpose_a = transposes_a, .transpose_b = transposes_b}));
          }
        }
      }
    }
  }
}

TEST_F(HiddenMemory, NoneInProductsInBlocks) {
  if (!has(dnnl_cpu_isa_avx512_core)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  Graph graph;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
  // Wide enough for blocks of rows, and for a table of several tiles.
  const Value rows = in({256, 100}), table = in({24576, 100}), logits = in({256, 24576});
  expect_none("wide y", matmul(rows, table, {.transpose_b = true}));
  expect_none("wide a", matmul(logits, table));
  expect_none("wide a, summed", matmul_over_rows(logits, rows));
  expect_none("wide b, summed", matmul(rows, logits, {.transpose_a = true}));
}

TEST_F(HiddenMemory, NoneInProductsOfBatchesAndAttention) {
  if (!has(dnnl_cpu_isa_avx512_core)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  for (std::int64_t length : {17, 128}) {
    Graph graph;
    const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
    const Value x = in({4, length, 64}), y = in({4, 64, length}), rows = in({4, length, 48});
    expect_none("batched", matmul(x, y));
    expect_none("batched, b turned", matmul(x, x, {.transpose_b = true}));
    expect_none("over rows", matmul_over_rows(x, rows));
    const Value q = in({2, 4, length, 32});
    const Value z = attention(q, q, q, {.causal = true});
    expect_none("attention", z);
    expect_none("attention", attention_grad(q, q, q, q, z.node().output(1), {.causal = true}).dq);
  }
}

}  // namespace
}  // namespace sectionflow::testing_support

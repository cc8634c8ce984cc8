#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "device/instruction_set.h"
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

namespace sectionflow::testing_support {
namespace {

/// A convolution of the residual net for MNIST.
struct Layer {
  const char* name;
  std::int64_t size, channels, filters, kernel, stride;
};
constexpr Layer kLayers[] = {
    {"first", 28, 1, 16, 3, 1},           {"28x28", 28, 16, 16, 3, 1}, {"halving to 14", 28, 16, 32, 3, 2},
    {"shortcut to 14", 28, 16, 32, 1, 2}, {"14x14", 14, 32, 32, 3, 1}, {"halving to 7", 14, 32, 64, 3, 2},
    {"shortcut to 7", 14, 32, 64, 1, 2},  {"7x7", 7, 64, 64, 3, 1},
};

bool has(InstructionSet wanted) {
  return instruction_set() >= wanted;
}

/// Lists what computes `value`, and refuses oneDNN's plain and gemm implementations: slow, and with hidden memory.
void expect_jit(const std::string& name, Value value) {
  const std::string implementation = implementation_of(value);
  std::printf("%-24s %-24s %s\n", name.c_str(), value.node().op().name.c_str(), implementation.c_str());
  EXPECT_EQ(implementation.find("gemm:"), std::string::npos) << name << ": " << implementation;
  EXPECT_EQ(implementation.find("ref"), std::string::npos) << name << ": " << implementation;
}

TEST(Implementations, ConvolutionsOfTheMnistNetAreJit) {
  if (!has(InstructionSet::avx2)) GTEST_SKIP() << "oneDNN has JIT kernels for AVX2 and better";
  for (std::int64_t batch : {64, 250}) {
    for (const Layer& layer : kLayers) {
      Graph graph;
      const Conv2dOptions options{.stride = {layer.stride, layer.stride}};
      const Value x = placeholder(graph, "x", {batch, layer.size, layer.size, layer.channels});
      const Value w = placeholder(graph, "w", {layer.kernel, layer.kernel, layer.channels, layer.filters});
      const Value y = conv2d(x, w, options);
      const Value dy = placeholder(graph, "dy", y.shape());
      const std::string name = std::string(layer.name) + ", batch " + std::to_string(batch);
      expect_jit(name, y);
      expect_jit(name, conv2d_backward_input(dy, w, x, options));
      expect_jit(name, conv2d_backward_filter(dy, x, w, options));
    }
  }
}

/// A convolution by its options, and its gradients.
struct Convolution {
  const char* name;
  Shape x, w;
  Conv2dOptions options{};
};

TEST(Implementations, ConvolutionsWithGroupsAndDilationAreJit) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN has JIT kernels for all of these for AVX-512 only";
  const DataFormat nchw = DataFormat::nchw;
  const Convolution table[] = {
      {"dilation 2", {4, 14, 14, 32}, {3, 3, 32, 32}, {.dilation = {2, 2}}},
      {"dilation 2, odd channels", {4, 14, 14, 17}, {3, 3, 17, 10}, {.dilation = {2, 2}}},
      {"depthwise", {4, 14, 14, 32}, {3, 3, 1, 32}, {.groups = 32}},
      {"depthwise, stride 2", {4, 14, 14, 17}, {3, 3, 1, 17}, {.stride = {2, 2}, .groups = 17}},
      {"depthwise, two filters each", {4, 14, 14, 16}, {3, 3, 1, 32}, {.groups = 16}},
      {"ResNeXt's groups", {4, 14, 14, 128}, {3, 3, 4, 128}, {.groups = 32}},
      {"groups of odd channels", {4, 14, 14, 6}, {3, 3, 3, 4}, {.groups = 2}},
      {"nchw", {4, 16, 14, 14}, {3, 3, 16, 32}, {.format = nchw}},
      {"nchw, stride 2", {4, 3, 14, 14}, {3, 3, 3, 10}, {.stride = {2, 2}, .format = nchw}},
      {"nchw, depthwise", {4, 16, 14, 14}, {3, 3, 1, 16}, {.groups = 16, .format = nchw}},
  };
  for (const Convolution& row : table) {
    Graph graph;
    const Value x = placeholder(graph, "x", row.x), w = placeholder(graph, "w", row.w);
    const Value y = conv2d(x, w, row.options);
    const Value dy = placeholder(graph, "dy", y.shape());
    expect_jit(row.name, y);
    expect_jit(row.name, conv2d_backward_input(dy, w, x, row.options));
    expect_jit(row.name, conv2d_backward_filter(dy, x, w, row.options));
  }
}

TEST(Implementations, DeepAndTransposedConvolutionsAreJit) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN has JIT kernels for all of these for AVX-512 only";
  for_deep_and_transposed_convolutions(expect_jit);
}

/// Where oneDNN has nothing but gemm, whose memory is hidden, loops of our own compute.
TEST(Implementations, NeverGemm) {
  Graph graph;
  const Conv2dOptions options{.stride = {2, 2}, .dilation = {2, 2}};
  const Value x = placeholder(graph, "x", {2, 14, 14, 17}), w = placeholder(graph, "w", {3, 3, 17, 10});
  const Value y = conv2d(x, w, options);
  const Value dy = placeholder(graph, "dy", y.shape());
  for (const Value& value : {y, conv2d_backward_input(dy, w, x, options), conv2d_backward_filter(dy, x, w, options)}) {
    const std::string implementation = implementation_of(value);
    EXPECT_EQ(implementation.find("gemm"), std::string::npos) << implementation;
    EXPECT_EQ(implementation.find("ref"), std::string::npos) << implementation;
  }
}

/// What computes products of bf16 on this instruction set: a part of its name.
std::string of_bf16() {
  if (instruction_set() == InstructionSet::amx) return "amx";
  return multiplies_bf16() ? "bf16" : "f32 for";
}

/// Lists what computes `value`, of bf16, and wants it to be made for the instructions that there are.
void expect_bf16(const std::string& name, Value value) {
  const std::string implementation = implementation_of(value);
  std::printf("%-24s %-24s %s\n", name.c_str(), value.node().op().name.c_str(), implementation.c_str());
  EXPECT_NE(implementation.find(of_bf16()), std::string::npos) << name << ": " << implementation;
  EXPECT_EQ(implementation.find("gemm:"), std::string::npos) << name << ": " << implementation;
  EXPECT_EQ(implementation.find("ref"), std::string::npos) << name << ": " << implementation;
}

TEST(Implementations, ProductsOfBf16AreMadeForTheInstructionsThatThereAre) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  Graph graph;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape), Dtype::bf16); };
  const Value x = in({4, 256, 768}), w = in({768, 3072}), dy = in({4, 256, 3072});
  expect_bf16("hidden", matmul(x, w));
  expect_bf16("hidden, dx", matmul(dy, w, {.transpose_b = true}));
  expect_bf16("hidden, dw", matmul_over_rows(x, dy));
  const Value rows = in({1024, 768}), table = in({50257, 768}), dlogits = in({1024, 50257});
  expect_bf16("head", matmul(rows, table, {.transpose_b = true}));
  expect_bf16("head, dx", matmul(dlogits, table));
  expect_bf16("head, dw", matmul(dlogits, rows, {.transpose_a = true}));
  expect_bf16("matrices", matmul(in({3, 40, 34}), in({3, 34, 18})));
  const Value q = in({4, 12, 256, 64});
  const Value y = attention(q, q, q, {.causal = true});
  expect_bf16("attention", y);
  expect_bf16("attention", attention_grad(q, q, q, q, y.node().output(1), {.causal = true}).dq);
}

TEST(Implementations, ConvolutionsOfBf16AreMadeForTheInstructionsThatThereAre) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN has JIT kernels for all of these for AVX-512 only";
  for (const Layer& layer : kLayers) {
    if (layer.channels == 1) continue;  // oneDNN takes another for so few
    Graph graph;
    const Conv2dOptions options{.stride = {layer.stride, layer.stride}};
    const Value x = placeholder(graph, "x", {64, layer.size, layer.size, layer.channels}, Dtype::bf16);
    const Value w = placeholder(graph, "w", {layer.kernel, layer.kernel, layer.channels, layer.filters}, Dtype::bf16);
    const Value y = conv2d(x, w, options);
    const Value dy = placeholder(graph, "dy", y.shape(), Dtype::bf16);
    expect_bf16(layer.name, y);
    expect_bf16(layer.name, conv2d_backward_input(dy, w, x, options));
    expect_bf16(layer.name, conv2d_backward_filter(dy, x, w, options));
  }
  Graph graph;
  const Value x = placeholder(graph, "x", {8, 14, 14, 1024}, Dtype::bf16);
  const Value w = placeholder(graph, "w", {1, 1, 1024, 256}, Dtype::bf16);
  for (const std::int64_t stride : {1, 2}) {
    const Value y = conv2d(x, w, {.stride = {stride, stride}});
    const Value dy = placeholder(graph, "dy", y.shape(), Dtype::bf16);
    const Value dw = conv2d_backward_filter(dy, x, w, {.stride = {stride, stride}});
    expect_bf16("pixels", dw);
    const bool is_product = implementation_of(dw).find("pixels") != std::string::npos;
    EXPECT_EQ(is_product, multiplies_bf16());
  }
}

TEST(Implementations, MatmulsOfTheMnistNetAreJit) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  for (std::int64_t batch : {64, 250}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {batch, 3136}), w = placeholder(graph, "w", {3136, 10});
    const Value dy = placeholder(graph, "dy", {batch, 10});
    const std::string name = "dense, batch " + std::to_string(batch);
    expect_jit(name, matmul(x, w));
    expect_jit(name, matmul(dy, w, {.transpose_b = true}));
    expect_jit(name, matmul(x, dy, {.transpose_a = true}));
  }
}

TEST(Implementations, MatmulsAndAttentionOfAGptAreJit) {
  if (!has(InstructionSet::avx512)) GTEST_SKIP() << "oneDNN's matmul has JIT kernels for AVX-512 only";
  Graph graph;
  const std::int64_t images = 4, length = 256, heads = 12, width = 768, vocabulary = 50257;
  const auto in = [&](Shape shape) { return placeholder(graph, "x", std::move(shape)); };
  const Value x = in({images, length, width}), w = in({width, 4 * width}), dy = in({images, length, 4 * width});
  expect_jit("hidden", matmul(x, w));
  expect_jit("hidden, dx", matmul(dy, w, {.transpose_b = true}));
  expect_jit("hidden, dw", matmul_over_rows(x, dy));
  const Value rows = in({images * length, width}), table = in({vocabulary, width});
  const Value dlogits = in({images * length, vocabulary});
  expect_jit("head", matmul(rows, table, {.transpose_b = true}));
  expect_jit("head, dx", matmul(dlogits, table));
  expect_jit("head, dw", matmul(dlogits, rows, {.transpose_a = true}));
  const Value q = in({images, heads, length, width / heads});
  for (bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal};
    const Value y = attention(q, q, q, options);
    expect_jit(causal ? "causal attention" : "attention", y);
    expect_jit(causal ? "causal attention" : "attention", attention_grad(q, q, q, q, y.node().output(1), options).dq);
  }
}

}  // namespace
}  // namespace sectionflow::testing_support

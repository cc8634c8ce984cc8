// What docs/blocks.md shows is compiled and run here, word for word.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/blocks.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/recurrent.h"
#include "graph/shared_variables.h"
#include "graph/transformer.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

namespace sectionflow::blocks_page {
namespace {

/// The type of y after a training step on zeros and ones, of two examples. `zeros`: what is fed besides.
std::string trained(GraphSectionManager& manager, Value input, Value y, const std::vector<Value>& zeros) {
  Graph& graph = y.graph();
  Value loss;
  {
    auto section = manager.new_section("loss");
    loss = mean(square(y.dtype() == Dtype::f32 ? y : cast(y, Dtype::f32)));
  }
  manager.add_training_ops(Adam{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  std::vector<Value> inputs = zeros;
  inputs.push_back(input);
  std::deque<HostTensor> tensors;
  Feeds feeds;
  for (const Value& value : inputs) {
    std::vector<std::int64_t> dims = value.shape().dims();
    dims[0] = 2;
    feeds.emplace_back(value, tensors.emplace_back(value.dtype(), Shape(std::move(dims))));
  }
  const auto [found] = manager.run_full_cycle(session, {loss}, feeds);
  EXPECT_GE(found.item<float>(), 0);
  return y.type().text();
}

struct Page {
  Value numbers(Shape shape) { return placeholder(graph, "x", std::move(shape)); }
  std::string trained(Value input, Value y, const std::vector<Value>& zeros = {}) {
    return blocks_page::trained(manager, input, y, zeros);
  }

  Graph graph;
  GraphSectionManager manager{graph};
};

TEST(BlocksPage, OfTransformers) {
  Page page;
  Graph& graph = page.graph;
  GraphSectionManager& manager = page.manager;
  const Value tokens = placeholder(graph, "tokens", {kDynamic, 6}, Dtype::i32);
  // The page, from here:
  Value x = embedding(tokens, {.vocabulary = 256, .width = 32});  // [N, T, 32]
  for (int block = 0; block < 4; ++block) {
    auto section = manager.new_section();
    x = transformer_block(x, {.attention = {.heads = 4, .causal = true}, .dropout = 0.1F});
  }
  // to here.
  EXPECT_EQ(page.trained(tokens, x), "f32[?,6,32]");
}

TEST(BlocksPage, OfBlocksWithRotaryPositions) {
  Page page;
  const Value x = page.numbers({kDynamic, 4, 32});
  // The page, from here:
  const MultiHeadAttentionOptions attention{
      .heads = 8, .key_value_heads = 2, .causal = true, .rotary = RotaryOptions{}, .bias = false, .output_bias = false};
  const Value y = transformer_block(x, {.attention = attention,
                                        .hidden = 48,
                                        .activation = Activation::silu,
                                        .gated = true,
                                        .bias = false,
                                        .norm = Norm::rms});
  // to here.
  EXPECT_EQ(page.trained(x, y), "f32[?,4,32]");
}

TEST(BlocksPage, OfKeysThatAQuerySees) {
  Page page;
  Graph& graph = page.graph;
  Value x = page.numbers({kDynamic, 16, 8});
  const Value input = x;
  // The page, from here:
  const Value lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i32);  // of each example
  const Value bias = variable("bias", fill(graph, {4, 16, 16}, 0));             // [heads, T, S], trained
  x = transformer_block(x, {.attention = {.heads = 4, .key_lengths = lengths, .mask = bias}, .name = "padded"});
  x = transformer_block(x, {.attention = {.heads = 4, .causal = true, .window = 8}, .name = "local"});
  // to here.
  EXPECT_EQ(page.trained(input, x, {lengths}), "f32[?,16,8]");
}

TEST(BlocksPage, OfTextsTokenByToken) {
  Page page;
  Graph& graph = page.graph;
  const Value x = page.numbers({kDynamic, 4, 32}), token = placeholder(graph, "token", {1, 1, 32});
  // The page, from here:
  const Value position = placeholder(graph, "position", {}, Dtype::i64);  // how many tokens stand before
  std::vector<KeyValueCache> caches;
  for (int block = 0; block < 2; ++block) {
    caches.push_back(key_value_cache(graph, {.heads = 4, .head_width = 8, .capacity = 256}));
  }
  SharedVariables net(graph, "net");
  const auto blocks = [&](Value x, bool is_cached) {  // [N, T, 32]
    const auto scope = net.scope();
    for (const KeyValueCache& cache : caches) {
      MultiHeadAttentionOptions attention{.heads = 4, .causal = true, .rotary = RotaryOptions{}};
      if (is_cached) attention.cache = cache, attention.position = position;
      x = transformer_block(x, {.attention = attention});
    }
    return x;
  };
  const Value whole = blocks(x, false);         // [N, T, 32], trained
  const Value continued = blocks(token, true);  // [1, 1, 32] at `position`
  // to here.
  EXPECT_EQ(page.trained(x, whole), "f32[?,4,32]");
  Session session(graph);
  session.initialize();
  const HostTensor row(Dtype::f32, {1, 1, 32});
  const auto [found] = session.run({continued}, {{token, row}, {position, std::int64_t{12}}});
  EXPECT_EQ(found.type().text(), "f32[1,1,32]");
}

TEST(BlocksPage, OfAttentionToAMemory) {
  Page page;
  const Value x = page.numbers({kDynamic, 4, 8}), memory = concat({x, x, x}, -2);
  // The page, from here:
  const Value queries = layer_norm(x, {.name = "norm"});
  const Value y = x + multi_head_attention(queries, memory, {.heads = 4, .name = "cross"});  // memory [N, S, M]
  // to here.
  EXPECT_EQ(page.trained(x, y), "f32[?,4,8]");
}

TEST(BlocksPage, OfRecurrentLayers) {
  Page page;
  const Value x = page.numbers({kDynamic, 4, 6});
  // The page, from here:
  const Value outputs = lstm(x, {.features = 16}).outputs;    // [N, T, 16]
  const GruResult result = gru(outputs, {.features = 8});     // a layer above it
  const Value logits = dense(result.state, {.features = 5});  // of the last step
  // to here.
  EXPECT_EQ(page.trained(x, logits), "f32[?,5]");
}

TEST(BlocksPage, OfBothDirections) {
  Page page;
  const Value x = page.numbers({kDynamic, 4, 6});
  // The page, from here:
  const Value there = lstm(x, {.features = 16}).outputs;
  const Value back = lstm(x, {.features = 16, .reverse = true}).outputs;  // in the order of x, too
  const Value both = concat({there, back}, -1);                           // [N, T, 32]
  // to here.
  EXPECT_EQ(page.trained(x, both), "f32[?,4,32]");
}

TEST(BlocksPage, OfPaddedSequences) {
  Page page;
  Graph& graph = page.graph;
  const Value x = page.numbers({kDynamic, 4, 6});
  // The page, from here:
  const Value lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i64);
  const Value logits = dense(gru(x, {.features = 8, .lengths = lengths}).state, {.features = 5});
  // to here.
  EXPECT_EQ(page.trained(x, logits, {lengths}), "f32[?,5]");
}

TEST(BlocksPage, OfSectionsByTime) {
  Page page;
  Graph& graph = page.graph;
  GraphSectionManager& manager = page.manager;
  const Value x = page.numbers({kDynamic, 64, 8});
  // The page, from here:
  SharedVariables layer(graph, "layer");
  LstmState state;
  for (int part = 0; part < 16; ++part) {
    auto section = manager.new_section();
    const auto scope = layer.scope();
    const Value steps = slice(x, {.begin = {0, 4 * part, 0}, .size = {-1, 4, -1}});  // of x [N, 64, C]
    state = lstm(steps, state, {.features = 64}).state;
  }
  // to here.
  EXPECT_EQ(layer.variables().size(), 3U);
  EXPECT_EQ(page.trained(x, state.output), "f32[?,64]");
}

TEST(BlocksPage, OfStepsInALoop) {
  Page page;
  Graph& graph = page.graph;
  const Value first = page.numbers({kDynamic, 4});
  // The page, from here:
  SharedVariables decoder(graph, "decoder");
  Value state, output = first;  // [N, 4]
  for (int step = 0; step < 3; ++step) {
    const auto scope = decoder.scope();
    state = gru_cell(output, state, {.features = 8});
    output = dense(state, {.features = 4});
  }
  // to here.
  EXPECT_EQ(decoder.variables().size(), 6U);
  EXPECT_EQ(page.trained(first, output), "f32[?,4]");
}

TEST(BlocksPage, OfGatedUnits) {
  Page page;
  const Value x = page.numbers({kDynamic, 8});
  // The page, from here:
  const Value y = dense(swiglu(dense(x, {.features = 2 * 24, .bias = false})), {.features = 8, .bias = false});
  // to here.
  EXPECT_EQ(page.trained(x, y), "f32[?,8]");
}

TEST(BlocksPage, OfConvolutionalNets) {
  Page page;
  const Value x = page.numbers({kDynamic, 4, 4, 32});
  // The page, from here:
  const Value branch = squeeze_excite(conv2d(relu(x), {.features = 32}));  // x [N, H, W, 32]
  const Value y = x + drop_path(branch, {.rate = 0.2F});
  // to here.
  EXPECT_EQ(page.trained(x, y), "f32[?,4,4,32]");
}

TEST(BlocksPage, OfConvolvedSequences) {
  Page page;
  const Value x = page.numbers({kDynamic, 9, 3});
  // The page, from here:
  Value y = x;  // [N, T, C]
  for (const int dilation : {1, 2, 4}) {
    y = relu(conv1d(y, {.features = 8, .padding = SequencePadding::causal, .dilation = dilation}));
  }
  // to here.
  EXPECT_EQ(page.trained(x, y), "f32[?,9,8]");
}

TEST(BlocksPage, OfMixedPrecision) {
  Page page;
  Graph& graph = page.graph;
  const Value x = page.numbers({kDynamic, 4, 6});
  // The page, from here:
  const MixedPrecision precision(graph);
  const Value y = conv1d(x, {.features = 8});  // bf16
  const MixedPrecision full(graph, Dtype::f32);
  const Value outputs = lstm(y, {.features = 16}).outputs;  // f32
  // to here.
  EXPECT_EQ(y.dtype(), Dtype::bf16);
  EXPECT_EQ(page.trained(x, outputs), "f32[?,4,16]");
}

}  // namespace
}  // namespace sectionflow::blocks_page

#include "graph/blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/layers.h"
#include "graph/ops/unary.h"
#include "graph/recurrent.h"
#include "graph/shared_variables.h"
#include "graph/transformer.h"
#include "runtime/session.h"
#include "tests/graph/blocks_case.h"
#include "tests/support/tolerance.h"

namespace sectionflow::block_case {
namespace {

using Names = std::vector<std::string>;

/// "name f32[3,4]" of each variable, in the order of their making.
Names variables_of(const Graph& graph) {
  Names names;
  for (const Value& value : graph.values(kTrainableVariables))
    names.push_back(value.name() + " " + value.type().text());
  return names;
}

/// Of what `build` makes of x [?, ...] with the other dimensions as given.
Names variables_of_layer(Shape shape, const std::function<Value(Value)>& build) {
  Graph graph;
  const Value y = build(placeholder(graph, "x", std::move(shape)));
  EXPECT_EQ(y.shape()[0], kDynamic);
  return variables_of(graph);
}

TEST(Blocks, NameTheirVariables) {
  EXPECT_EQ(variables_of_layer({kDynamic, 5, 6}, [](Value x) { return conv1d(x, {.features = 4, .groups = 2}); }),
            (Names{"conv1d/kernel f32[1,3,3,4]", "conv1d/bias f32[4]"}));
  EXPECT_EQ(variables_of_layer({kDynamic, 32, 4, 4},
                               [](Value x) { return squeeze_excite(x, {.format = DataFormat::nchw, .name = "se"}); }),
            (Names{"se/squeeze/kernel f32[32,2]", "se/squeeze/bias f32[2]", "se/excite/kernel f32[2,32]",
                   "se/excite/bias f32[32]"}));
  EXPECT_EQ(variables_of_layer({kDynamic, 5, 6}, [](Value x) { return lstm(x, {.features = 2}).outputs; }),
            (Names{"lstm/input_kernel f32[6,8]", "lstm/state_kernel f32[2,8]", "lstm/bias f32[8]"}));
  EXPECT_EQ(variables_of_layer({kDynamic, 6}, [](Value x) { return gru_cell(x, {}, {.features = 2, .name = "cell"}); }),
            (Names{"cell/input_kernel f32[6,6]", "cell/state_kernel f32[2,6]", "cell/input_bias f32[6]",
                   "cell/state_bias f32[6]"}));
  const auto build_block = [](Value x) {
    return transformer_block(x, {.attention = {.heads = 4, .key_value_heads = 1}, .gated = true});
  };
  EXPECT_EQ(variables_of_layer({kDynamic, 5, 8}, build_block),
            (Names{"block/norm1/scale f32[8]", "block/norm1/shift f32[8]", "block/attention/qkv/kernel f32[8,12]",
                   "block/attention/qkv/bias f32[12]", "block/attention/output/kernel f32[8,8]",
                   "block/attention/output/bias f32[8]", "block/norm2/scale f32[8]", "block/norm2/shift f32[8]",
                   "block/hidden/kernel f32[8,64]", "block/hidden/bias f32[64]", "block/output/kernel f32[32,8]",
                   "block/output/bias f32[8]"}));
}

TEST(Blocks, FindTheirVariablesInLaterScopes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 6});
  SharedVariables shared(graph, "shared");
  const auto build = [&] {
    const auto names = shared.scope();
    Value y = transformer_block(x, {.attention = {.heads = 2}});
    y = multi_head_attention(conv1d(y, {.features = 6}), y, {.heads = 3});
    return gru(lstm(y, {.features = 3}).outputs, {.features = 3}).outputs;
  };
  build();
  const Names first = variables_of(graph);
  build();
  EXPECT_EQ(variables_of(graph), first);
  EXPECT_EQ(shared.variables().size(), first.size());
}

TEST(Blocks, OfSequencesOfUnknownLengthTakeAKnownBatch) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, kDynamic, 6}), memory = placeholder(graph, "memory", {2, kDynamic, 4});
  const Value y = multi_head_attention(x, memory, {.heads = 2, .head_width = 2, .key_value_heads = 1});
  EXPECT_EQ(transformer_block(y, {.attention = {.heads = 2, .causal = true}}).type().text(), "f32[2,?,6]");
}

TEST(Blocks, AreOfTheDtypeOfAMixedPrecision) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 4, 6}), image = placeholder(graph, "image", {kDynamic, 2, 2, 3});
  const MixedPrecision precision(graph);
  const LstmResult found = lstm(x, {.features = 3});
  for (const Value& y : {conv1d(x, {.features = 2}), squeeze_excite(image), multi_head_attention(x, {.heads = 2}),
                         transformer_block(x, {.attention = {.heads = 2, .head_width = 2, .rotary = RotaryOptions{}}}),
                         found.outputs, found.state.cell, gru(x, {.features = 3}).state}) {
    EXPECT_EQ(y.dtype(), Dtype::bf16) << y.name();
  }
  // A state in f32 is taken, too.
  const Value state = placeholder(graph, "state", {kDynamic, 3});
  EXPECT_EQ(lstm(x, {state, state}, {.features = 3}).outputs.dtype(), Dtype::bf16);
}

TEST(Lstm, BeginsWithAForgetGateThatKeeps) {
  Graph graph;
  (void)lstm(placeholder(graph, "x", {kDynamic, 2, 3}), {.features = 2});
  Session session(graph, {.threads = 1});
  session.initialize();
  EXPECT_EQ(doubles_of(session.read(graph.find("lstm/bias").output())), (Doubles{0, 0, 1, 1, 0, 0, 0, 0}));
}

// ---- Rotary positions.

/// Elements of x [2, 3, 8] at places 5, 6 and 7, by the formula.
Doubles turned_of(const Doubles& x, bool interleaved) {
  Doubles y(x.size());
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double angle = static_cast<double>(5 + row % 3) * std::pow(10000.0, -static_cast<double>(i) / 4);
      const std::size_t a = row * 8 + (interleaved ? 2 * i : i), b = a + (interleaved ? 1 : 4);
      y[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
      y[b] = x[a] * std::sin(angle) + x[b] * std::cos(angle);
    }
  }
  return y;
}

TEST(Rotary, HasOnePairOfTablesAGraph) {
  Graph graph;
  const auto num_constants = [&] {
    int found = 0;
    for (NodeId id = 0; id < graph.num_nodes(); ++id) found += graph.node(id).op().is_constant() ? 1 : 0;
    return found;
  };
  const Value x = placeholder(graph, "x", {kDynamic, 3, 4});
  (void)rotary(x);
  EXPECT_EQ(num_constants(), 2);
  {
    const GraphScope group = graph.enter_group(graph.new_group("other"));
    (void)multi_head_attention(rotary(x), {.heads = 1, .rotary = RotaryOptions{}});
  }
  int before = num_constants();
  (void)rotary(x);
  EXPECT_EQ(num_constants(), before);
  for (const RotaryOptions& other : {RotaryOptions{.base = 10001}, {.interleaved = true}, {.first_position = 1}}) {
    (void)rotary(x, other);
    (void)rotary(x, other);
    EXPECT_EQ(num_constants(), before += 2);
  }
  // What is taken out again is not found again.
  try {
    graph.all_or_nothing([&] {
      (void)rotary(x, {.base = 77});
      throw ArgumentError("no");
    });
  } catch (const ArgumentError&) {
  }
  EXPECT_EQ(num_constants(), before);
  EXPECT_EQ(rotary(x, {.base = 77}).shape(), x.shape());
  EXPECT_EQ(num_constants(), before + 2);
}

TEST(Rotary, OfPairsTakesSeveralUnknownSizes) {
  Graph graph;
  const Value open = placeholder(graph, "open", {kDynamic, kDynamic, 3, 4}), known = placeholder(graph, "x", {6, 3, 4});
  const Value a = rotary(open, {.interleaved = true}), b = rotary(known, {.interleaved = true});
  EXPECT_EQ(a.shape(), open.shape());
  HostTensor numbers(Dtype::f32, {2, 3, 3, 4}), same(Dtype::f32, {6, 3, 4});
  for (std::size_t i = 0; i < 72; ++i) {
    same.values<float>()[i] = numbers.values<float>()[i] = static_cast<float>(i % 7) - 2.5F;
  }
  testing_support::Feeds feeds;
  feeds.emplace(open, std::move(numbers));
  feeds.emplace(known, std::move(same));
  const std::vector<HostTensor> found = testing_support::run_kernels({a, b}, feeds);
  EXPECT_EQ(found[0].shape(), (Shape{2, 3, 3, 4}));
  EXPECT_EQ(testing_support::doubles_of(found[0]), testing_support::doubles_of(found[1]));
}

TEST(Rotary, TurnsPairsByTheFormula) {
  for (const bool interleaved : {false, true}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
      Graph graph;
      const TensorType type{dtype, {2, 3, 8}};
      const Value x = placeholder(graph, "x", {kDynamic, 3, 8}, dtype);
      const Value y = rotary(x, {.interleaved = interleaved, .first_position = 5});
      const HostTensor fed = pattern_tensor(type, 1, 4);
      testing_support::Feeds feeds;
      feeds.emplace(x, fed.clone());
      const Doubles found = doubles_of(testing_support::run_kernels({y}, feeds)[0]);
      const Doubles wanted = turned_of(doubles_of(fed), interleaved);
      // One rounding of a bf16: what it computes with is f32.
      const double epsilon = dtype == Dtype::f32 ? 0x1p-21 : 0x1p-8 + 0x1p-12;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_NEAR(found[i], wanted[i], epsilon * (std::abs(wanted[i]) + 0x1p-6)) << i;
      }
    }
  }
}

// ---- Dropped paths.

struct Dropped {
  HostTensor y, dx;
};
Dropped dropped_ones(bool is_training, float rate, Dtype dtype = Dtype::f32) {
  Graph graph;
  const Value x = fill(graph, {4096, 2, 3}, 1, dtype);
  const Value y = drop_path(x, {.rate = rate});
  const Value dx = gradients(reduce_sum(cast(y, Dtype::f32)), {x})[0];
  Session session(graph, {.threads = 1, .seed = 5});
  session.initialize();
  auto found = session.run({y, dx}, {{graph.training(), is_training}});
  return {std::move(found[0]), std::move(found[1])};
}

TEST(DropPath, DropsWholeExamplesAndScalesTheOthers) {
  const Dropped found = dropped_ones(true, 0.25F);
  EXPECT_TRUE(testing_support::same_bits(found.dx, found.y)) << "the gradient is dropped where the example is";
  const Doubles y = doubles_of(found.y);
  int dropped = 0;
  for (std::size_t n = 0; n < 4096; ++n) {
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(y[6 * n + i], y[6 * n]);
    const bool is_dropped = y[6 * n] == 0;
    EXPECT_NEAR(y[6 * n], is_dropped ? 0 : 4.0 / 3, 1e-6);
    dropped += is_dropped ? 1 : 0;
  }
  // 1024, within five standard deviations of 28.
  EXPECT_NEAR(dropped, 1024, 140);
}

TEST(DropPath, GivesXInEvaluation) {
  for (const double value : doubles_of(dropped_ones(false, 0.25F, Dtype::bf16).y)) EXPECT_EQ(value, 1);
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3});
  EXPECT_EQ(drop_path(x, {.rate = 0}), x);
}

}  // namespace
}  // namespace sectionflow::block_case

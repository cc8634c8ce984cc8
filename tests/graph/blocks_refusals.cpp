// What blocks and recurrent layers refuse: by option and value, with what would do, and before anything is made.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "graph/blocks.h"
#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/recurrent.h"
#include "graph/transformer.h"
#include "tests/graph/description.h"
#include "tests/support/contains.h"

namespace sectionflow::block_refusals {
namespace {

using testing_support::contains;

class BlockRefusals : public testing::Test {
 protected:
  /// The error of `call` has all of `parts`, the place of the call among them.
  void expect_refused(const std::function<void()>& call, std::vector<std::string> parts) {
    const auto before = testing_support::description(graph_);
    std::string text;
    try {
      call();
    } catch (const Error& error) {
      text = error.what();
    }
    parts.emplace_back("blocks_refusals.cpp:");
    for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
    EXPECT_EQ(testing_support::description(graph_), before);
  }

  Graph graph_;
  Value training_ = graph_.training();
  Value scalar_ = placeholder(graph_, "scalar", {}), whole_ = placeholder(graph_, "whole", {2, 4, 6}, Dtype::i32);
  Value rows_ = placeholder(graph_, "rows", {kDynamic, 6}), x_ = placeholder(graph_, "x", {kDynamic, 4, 6});
  Value open_ = placeholder(graph_, "open", {kDynamic, kDynamic, 6}),
        long_ = placeholder(graph_, "long", {kDynamic, 5, 6});
  Value unknown_ = placeholder(graph_, "unknown", {2, 4, kDynamic});
  Value odd_ = placeholder(graph_, "odd", {2, 4, 5}), image_ = placeholder(graph_, "image", {kDynamic, 4, 4, 3});
};

TEST_F(BlockRefusals, OfActivationsAndGatedUnits) {
  expect_refused([&] { activate(x_, static_cast<Activation>(7)); },
                 {"activate: activation is 7", "wanted relu, gelu, gelu_tanh or silu"});
  expect_refused([&] { glu(odd_); }, {"glu of 'odd': axis -1 of [2,4,5] is 5; wanted an even number", "hint:"});
  expect_refused([&] { swiglu(x_, 3); }, {"swiglu of 'x'", "3"});
  expect_refused([&] { reglu(scalar_); }, {"reglu of 'scalar'"});
  expect_refused([&] { geglu(whole_); }, {"geglu of 'whole' got i32[2,4,6]; wanted f32 or bf16"});
}

TEST_F(BlockRefusals, OfDropPath) {
  for (const float rate : {-0.1F, 1.0F, NAN}) {
    expect_refused([&] { drop_path(x_, {.rate = rate}); },
                   {text_of("drop_path of 'x': rate is ", rate, "; wanted 0 to 1, without 1")});
  }
  expect_refused([&] { drop_path(scalar_); }, {"got a scalar; wanted [N, ...]"});
  expect_refused([&] { drop_path(whole_); }, {"drop_path of 'whole' got i32[2,4,6]"});
  expect_refused([&] { drop_path(x_, x_); }, {"drop_path of 'x': is_training is f32[?,4,6]; wanted bool[]"});
}

TEST_F(BlockRefusals, OfSqueezeExcite) {
  expect_refused([&] { squeeze_excite(image_, {.squeezed = -1, .name = "se"}); },
                 {"squeeze_excite 'se': squeezed is -1; wanted 1 or more, or 0"});
  expect_refused([&] { squeeze_excite(image_, {.activation = static_cast<Activation>(-1)}); }, {"activation is -1"});
  expect_refused([&] { squeeze_excite(image_, {.format = static_cast<DataFormat>(7)}); }, {"format is 7"});
  expect_refused([&] { squeeze_excite(x_); },
                 {"squeeze_excite 'squeeze_excite' got [?,4,6]; wanted [..., C] of rank 4"});
}

TEST_F(BlockRefusals, OfConv1d) {
  expect_refused([&] { conv1d(x_, {}); }, {"conv1d 'conv1d': features is 0; wanted > 0"});
  expect_refused([&] { conv1d(x_, {.features = 2, .kernel = 0}); }, {"kernel is 0; wanted 1 to 2147483647"});
  expect_refused([&] { conv1d(x_, {.features = 2, .stride = -1}); }, {"stride is -1; wanted 1 to"});
  expect_refused([&] { conv1d(x_, {.features = 2, .dilation = 0}); }, {"dilation is 0; wanted 1 to"});
  expect_refused([&] { conv1d(x_, {.features = 4, .groups = 4}); },
                 {"groups is 4, of 6 channels and 4 features; wanted a divisor of both"});
  expect_refused([&] { conv1d(x_, {.features = 4, .kernel = 3, .padding = SequencePadding::valid, .dilation = 2}); },
                 {"kernel 3 with dilation 2 is of 5 steps, x has 4", "hint:"});
  expect_refused([&] { conv1d(x_, {.features = 4, .padding = static_cast<SequencePadding>(3)}); },
                 {"padding is 3", "wanted same, valid or causal"});
  expect_refused([&] { conv1d(open_, {.features = 4}); }, {"got [?,?,6]; wanted [N, T, C] with T and C known"});
  expect_refused([&] { conv1d(whole_, {.features = 4}); }, {"conv1d 'conv1d' got i32[2,4,6]; wanted f32 or bf16"});
}

TEST_F(BlockRefusals, OfRotary) {
  expect_refused([&] { rotary(x_, {.base = 1}); }, {"rotary of 'x': base is 1; wanted a finite number above 1"});
  expect_refused([&] { rotary(x_, {.base = INFINITY}); }, {"base is inf"});
  expect_refused([&] { rotary(x_, {.first_position = -1}); }, {"first_position is -1; wanted 0 to"});
  expect_refused([&] { rotary(odd_); }, {"rows are of 5 numbers; wanted an even number"});
  expect_refused([&] { rotary(open_); }, {"number of places is not known", "hint:"});
  expect_refused([&] { rotary(scalar_); }, {"got []; wanted [..., T, D]"});
}

TEST_F(BlockRefusals, OfATrainingFlagOfAnotherGraphThatNothingReads) {
  Graph other;
  const Value flag = other.training();
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .is_training = flag}); }, {"belongs to another graph"});
  expect_refused([&] { transformer_block(x_, {.attention = {.heads = 2}, .is_training = flag}); },
                 {"belongs to another graph"});
}

TEST_F(BlockRefusals, OfAnEmptyInitializer) {
  expect_refused([&] { gru(x_, {.features = 2, .input_initializer = {}}); },
                 {"parameter 'input_kernel': the initialiser is empty; wanted one", "hint:"});
}

TEST_F(BlockRefusals, OfAttention) {
  const std::string label = "multi_head_attention 'attention': ";
  expect_refused([&] { multi_head_attention(x_, {}); }, {label + "heads is 0; wanted > 0"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 4}); },
                 {label + "heads is 4, of 6 channels; wanted a divisor of them", "hint:    or say head_width"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .head_width = -1}); }, {label + "head_width is -1"});
  for (const int keys : {-1, 2, 6}) {
    expect_refused([&] { multi_head_attention(x_, {.heads = 3, .key_value_heads = keys}); },
                   {text_of(label, "key_value_heads is ", keys, ", of 3 heads; wanted a divisor of them, or 0")});
  }
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .dropout = 1}); },
                 {label + "dropout is 1; wanted 0 to 1"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .probability_dropout = 1}); },
                 {label + "probability_dropout is 1; wanted 0 to 1"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .window = -3}); }, {"window is -3; wanted > 0"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .key_lengths = x_}); },
                 {"key_lengths is f32[?,4,6]; wanted i32 or i64 [N]"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .mask = x_}); },
                 {"mask is f32[?,4,6]; wanted [? or 1, 2 or 1, 4 or 1, 4]"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .is_training = x_}); },
                 {label + "is_training is f32[?,4,6]; wanted bool[]"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .scale = INFINITY}); }, {"scale is inf; wanted a finite"});
  expect_refused([&] { multi_head_attention(x_, {.heads = 2, .rotary = RotaryOptions{}}); },
                 {label + "rotary: rows are of 3 numbers; wanted an even number"});
  expect_refused([&] { multi_head_attention(x_, long_, {.heads = 3, .rotary = RotaryOptions{}}); },
                 {label + "rotary is set and there is a memory; wanted one of them", "hint:"});
  expect_refused([&] { multi_head_attention(x_, long_, {.heads = 3, .causal = true}); },
                 {"4 queries and 5 keys", "CausalAlignment::last_key"});
  expect_refused([&] { multi_head_attention(open_, {.heads = 3}); },
                 {label + "x is [?,?,6]; wanted [N, T, C] with C known, and N or T", "hint:"});
  expect_refused([&] { multi_head_attention(x_, unknown_, {.heads = 3}); }, {label + "memory is [2,4,?]; wanted"});
  expect_refused([&] { multi_head_attention(rows_, {.heads = 3}); }, {label + "x is [?,6]; wanted [N, T, C]"});
  expect_refused([&] { multi_head_attention(whole_, {.heads = 3}); },
                 {"'attention' got i32[2,4,6]; wanted f32 or bf16"});
  expect_refused([&] { multi_head_attention(x_, {.heads = std::int64_t{1} << 62, .head_width = 8}); },
                 {label + "size 4611686018427387904 x 8"});
}

TEST_F(BlockRefusals, OfTransformerBlocks) {
  const std::string label = "transformer_block 'block': ";
  const MultiHeadAttentionOptions two{.heads = 2};
  expect_refused([&] { transformer_block(x_, {}); }, {"heads is 0; wanted > 0"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .hidden = -1}); },
                 {label + "hidden is -1; wanted > 0"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .activation = static_cast<Activation>(9)}); },
                 {label + "activation is 9, which is none of its values; wanted relu"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .norm = static_cast<Norm>(5)}); },
                 {label + "norm is 5; wanted layer or rms"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .epsilon = -1}); }, {label + "epsilon is -1"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .dropout = 2}); }, {label + "dropout is 2; wanted"});
  expect_refused([&] { transformer_block(x_, {.attention = two, .drop_path = -1}); },
                 {label + "drop_path is -1; wanted"});
  expect_refused([&] { transformer_block(x_, {.attention = {.heads = 2, .dropout = 0.5F}}); },
                 {label + "attention.dropout is 0.5", "wanted dropout and is_training of the block"});
  expect_refused([&] { transformer_block(rows_, {.attention = two}); }, {"'block' got [?,6]; wanted [N, T, C]"});
}

TEST_F(BlockRefusals, OfRecurrentLayers) {
  expect_refused([&] { lstm(x_, {}); }, {"lstm 'lstm': features is 0; wanted > 0"});
  expect_refused([&] { gru(x_, {.features = -2, .name = "g"}); }, {"gru 'g': features is -2; wanted > 0"});
  expect_refused([&] { lstm(x_, {.features = std::int64_t{1} << 62}); }, {"lstm 'lstm': size 4611686018427387904 x 4"});
  expect_refused([&] { lstm(rows_, {.features = 2}); }, {"lstm 'lstm' got [?,6]; wanted [N, T, C]", "lstm_cell"});
  expect_refused([&] { gru_cell(x_, {}, {.features = 2}); },
                 {"gru_cell 'gru' got [?,4,6]; wanted [N, C]", "lstm and gru"});
  expect_refused([&] { gru(open_, {.features = 2}); }, {"got [?,?,6]; wanted [N, T, C] with a known number of steps"});
  expect_refused([&] { lstm_cell(rows_, {}, {.features = 2, .reverse = true}); },
                 {"lstm_cell 'lstm': reverse is true; wanted it of a sequence alone"});
  expect_refused([&] { lstm(x_, {.output = rows_}, {.features = 6}); },
                 {"lstm 'lstm': the state has no cell; wanted output and cell, or neither"});
  expect_refused(
      [&] {
        lstm(x_, {rows_, rows_}, {.features = 4});
      },
      {"lstm 'lstm': the state's output is f32[?,6]; wanted f32 or bf16 [?,4]"});
  expect_refused([&] { gru(odd_, rows_, {.features = 3}); }, {"gru 'gru': the state's output is f32[?,6]; wanted"});
  expect_refused([&] { gru(whole_, {.features = 3}); }, {"gru 'gru' got i32[2,4,6]; wanted f32 or bf16"});
}

}  // namespace
}  // namespace sectionflow::block_refusals

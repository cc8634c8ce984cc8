// Blocks in sections train the bytes of the whole graph, with dropout and dropped paths.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/blocks.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/transformer.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"
#include "tests/support/tolerance.h"

namespace sectionflow::block_sections {
namespace {

/// Of convolutions and three kinds of blocks. `cut`: behind which of its five parts a section ends, a bit each.
struct Net {
  Net(Graph& graph, GraphSectionManager& manager, unsigned cut)
      : tokens(placeholder(graph, "tokens", {kDynamic, 6}, Dtype::i32)),
        labels(placeholder(graph, "labels", {kDynamic, 6}, Dtype::i32)),
        lengths(placeholder(graph, "lengths", {kDynamic}, Dtype::i32)) {
    std::optional<SectionScope> section(manager.new_section());
    const auto end_part = [&](unsigned part) {
      if ((cut >> part & 1) == 0) return;
      section.reset();
      section.emplace(manager.new_section());
    };
    Value x = conv1d(embedding(tokens, {.vocabulary = 6, .width = 8}), {.features = 8});
    const Value image = squeeze_excite(reshape(x, {-1, 6, 1, 8}));
    x = reshape(image, {-1, 6, 8});
    end_part(0);
    const RotaryOptions turned{.base = 100};
    x = transformer_block(x, {.attention = {.heads = 4, .key_value_heads = 2, .causal = true, .rotary = turned},
                              .activation = Activation::silu,
                              .gated = true,
                              .dropout = 0.25F,
                              .drop_path = 0.25F,
                              .norm = Norm::rms});
    end_part(1);
    const Value memory = x;
    const Value bias = variable("bias", fill(graph, {2, 6, 6}, 0.25));
    x = transformer_block(x, {.attention = {.heads = 2, .window = 3, .mask = bias, .probability_dropout = 0.25F},
                              .hidden = 5,
                              .norm_first = false,
                              .dropout = 0.25F});
    end_part(2);
    x = drop_path(
        x +
        multi_head_attention(
            x, memory,
            {.heads = 2, .key_value_heads = 1, .key_lengths = lengths, .dropout = 0.5F, .probability_dropout = 0.5F}));
    end_part(3);
    x = swiglu(dense(x, {.features = 12}));
    end_part(4);
    loss = mean(cross_entropy(dense(x, {.features = 3}), labels));
  }
  Value tokens, labels, lengths, loss;
};

/// The loss of each of three steps, and then each variable.
std::vector<HostTensor> trained(unsigned cut, bool by_sections, Dtype precision) {
  Graph graph;
  GraphSectionManager manager(graph);
  const MixedPrecision layers_in(graph, precision);
  const Net net(graph, manager, cut);
  std::vector<HostTensor> results =
      testing_support::trained_bytes(graph, manager, net.loss, by_sections, [&](int step) {
        HostTensor tokens(Dtype::i32, {4, 6}), labels(Dtype::i32, {4, 6});
        for (int i = 0; i < 24; ++i) tokens.values<std::int32_t>()[i] = (i * 5 + step) % 6;
        for (int i = 0; i < 24; ++i) labels.values<std::int32_t>()[i] = (i + step) % 3;
        HostTensor lengths(Dtype::i32, {4});
        for (int i = 0; i < 4; ++i) lengths.values<std::int32_t>()[i] = (2 * i + step) % 7;
        return Feeds{{net.tokens, tokens}, {net.labels, labels}, {net.lengths, lengths}};
      });
  for (const Value& variable : graph.values(kTrainableVariables)) EXPECT_EQ(variable.dtype(), Dtype::f32);
  return results;
}

void expect_bytes_of_the_whole(Dtype precision, const std::vector<unsigned>& cuts) {
  const std::vector<HostTensor> whole = trained(0, false, precision);
  EXPECT_TRUE(std::isfinite(whole[2].item<float>()));
  EXPECT_NE(whole[0].item<float>(), whole[2].item<float>());
  for (const unsigned cut : cuts) {
    const std::vector<HostTensor> cycles = trained(cut, true, precision);
    ASSERT_EQ(cycles.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(testing_support::same_bits(cycles[i], whole[i])) << "cut " << cut << ", tensor " << i;
    }
  }
}

TEST(BlocksInSections, TrainTheBytesOfTheWholeGraph) {
  expect_bytes_of_the_whole(Dtype::f32, {0, 1, 6, 9, 21, 31});
}
TEST(BlocksInSections, TrainTheBytesOfTheWholeGraphInBf16) {
  expect_bytes_of_the_whole(Dtype::bf16, {31});
}

}  // namespace
}  // namespace sectionflow::block_sections

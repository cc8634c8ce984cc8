// Losses in sections train the bytes of the whole graph.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "autodiff/updates.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"
#include "tests/support/tolerance.h"

namespace sectionflow::loss_sections {
namespace {

/// A net with a loss of each kind. `cut`: behind which of its four parts a section ends, a bit each.
struct Net {
  Net(Graph& graph, GraphSectionManager& manager, unsigned cut)
      : tokens(placeholder(graph, "tokens", {kDynamic, 4}, Dtype::i32)),
        labels(placeholder(graph, "labels", {kDynamic, 4}, Dtype::i64)),
        targets(placeholder(graph, "targets", {kDynamic, 4, 3})) {
    std::optional<SectionScope> section(manager.new_section());
    const auto end_part = [&](unsigned part) {
      if ((cut >> part & 1) == 0) return;
      section.reset();
      section.emplace(manager.new_section());
    };
    const Value x = tanh(dense(embedding(tokens, {.vocabulary = 6, .width = 8}), {.features = 3}));
    end_part(0);
    const CrossEntropyOptions options{.ignore_index = 2, .label_smoothing = 0.1F};
    const Value losses = cross_entropy(x, labels, options);
    end_part(1);
    const Value of_classes = weighted_mean(losses, label_weights(labels, options));
    const Value binary = mean(binary_cross_entropy_with_logits(x, targets, {.positive_weight = 2})) +
                         mean(focal_loss(x, targets)) + mean(hinge_loss(x, targets * 2.0F - 1.0F));
    end_part(2);
    const Value numbers = mean(absolute_error(x, targets)) + mean(squared_error(x, targets)) +
                          mean(huber_loss(x, targets, {.delta = 0.2F})) + mean(log_cosh_loss(x, targets));
    end_part(3);
    const Value rows = mean(kl_divergence(log_softmax(x), softmax(targets))) + mean(cosine_similarity(x, targets)) +
                       mean(triplet_margin_loss(x, targets, x * x)) + dice_loss(sigmoid(x), targets);
    loss = weighted_sum({{of_classes}, {binary}, {numbers}, {rows}});
  }
  Value tokens, labels, targets, loss;
};

/// The loss of each of three steps, and then each variable.
std::vector<HostTensor> trained(unsigned cut, bool by_sections) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Net net(graph, manager, cut);
  return testing_support::trained_bytes(graph, manager, net.loss, by_sections, [&](int step) {
    HostTensor tokens(Dtype::i32, {2, 4}), labels(Dtype::i64, {2, 4}), targets(Dtype::f32, {2, 4, 3});
    for (int i = 0; i < 8; ++i) tokens.values<std::int32_t>()[i] = (i * 5 + step) % 6;
    for (int i = 0; i < 8; ++i) labels.values<std::int64_t>()[i] = (i + step) % 3;
    for (int i = 0; i < 24; ++i) targets.values<float>()[i] = static_cast<float>((i + step) % 2);
    return Feeds{{net.tokens, tokens}, {net.labels, labels}, {net.targets, targets}};
  });
}

TEST(LossesInSections, TrainTheBytesOfTheWholeGraph) {
  const std::vector<HostTensor> whole = trained(0, false);
  EXPECT_TRUE(std::isfinite(whole[2].item<float>()));
  EXPECT_NE(whole[0].item<float>(), whole[2].item<float>());
  for (const unsigned cut : {0U, 1U, 2U, 5U, 10U, 15U}) {
    const std::vector<HostTensor> cycles = trained(cut, true);
    ASSERT_EQ(cycles.size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_TRUE(testing_support::same_bits(cycles[i], whole[i])) << "cut " << cut << ", tensor " << i;
    }
  }
}

}  // namespace
}  // namespace sectionflow::loss_sections

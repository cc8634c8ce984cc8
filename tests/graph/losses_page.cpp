// What docs/losses.md shows is compiled and run here, word for word.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/layers.h"
#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/ctc_loss.h"
#include "graph/ops/identities.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

namespace sectionflow::losses_page {
namespace {

/// A graph whose inputs are fed small tensors.
struct Page {
  Value numbers(Shape shape, std::vector<float> values) { return fed(HostTensor::of<float>(std::move(shape), values)); }
  Value labels(Shape shape, std::vector<std::int32_t> values) {
    return fed(HostTensor::of<std::int32_t>(std::move(shape), values));
  }
  /// The scalar, or the first element, that `value` comes to.
  float first_of(Value value) {
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    Feeds feeds;
    for (std::size_t i = 0; i < places.size(); ++i) feeds.push_back({places[i], tensors[i]});
    return session.run({value}, feeds)[0].values<float>()[0];
  }
  /// The first element of the gradient of a loss.
  float first_slope(Value loss, Value of) { return first_of(gradients(loss, {of})[0]); }

  Graph graph;

 private:
  Value fed(HostTensor tensor) {
    places.push_back(placeholder(graph, "input", tensor.shape(), tensor.dtype()));
    tensors.push_back(std::move(tensor));
    return places.back();
  }

  std::vector<Value> places;
  std::vector<HostTensor> tensors;
};

constexpr double kHalf = 0.6931471805599453;  // -ln(1 / 2)

TEST(LossesPage, TrainsByTheMeanOfWhatCounts) {
  Graph graph;
  GraphSectionManager manager(graph);
  const Value tokens = placeholder(graph, "tokens", {kDynamic, 4}, Dtype::i32);
  const Value labels = placeholder(graph, "labels", {kDynamic, 4}, Dtype::i32);
  Value x, loss;
  {
    auto section = manager.new_section("body");
    x = embedding(tokens, {.vocabulary = 5, .width = 3});
  }
  {
    auto section = manager.new_section("head");
    // The page, from here:
    const Value logits = dense(x, {.features = 5});       // [N, T, 5]
    const Value losses = cross_entropy(logits, labels);   // [N, T], 0 where a label is -100
    loss = weighted_mean(losses, label_weights(labels));  // []
    // to here.
  }
  manager.add_training_ops(Adam{}, loss);
  manager.prepare_training();
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor x_data = HostTensor::of<std::int32_t>({1, 4}, {0, 1, 2, 3});
  const HostTensor y_data = HostTensor::of<std::int32_t>({1, 4}, {1, 2, -100, -100});
  const auto [found] = manager.run_full_cycle(session, {loss}, {{tokens, x_data}, {labels, y_data}});
  EXPECT_TRUE(std::isfinite(found.item<float>()));
}

TEST(LossesPage, OfClasses) {
  Page page;
  Graph& graph = page.graph;
  const Value logits = page.numbers({2, 2}, {0, 0, 0, 0}), labels = page.labels({2}, {0, 1});
  // The page, from here:
  const Value weights = constant(graph, HostTensor::of<float>({2}, {0.25F, 4}));
  const CrossEntropyOptions options{.ignore_index = 255, .label_smoothing = 0.1F, .class_weights = weights};
  const Value losses = cross_entropy(logits, labels, options);
  const Value loss = weighted_mean(losses, label_weights(labels, options), {.is_weighted = true});
  // to here.
  EXPECT_NEAR(page.first_of(loss), kHalf, 1e-6);
}

TEST(LossesPage, OfEasyClasses) {
  Page page;
  const Value logits = page.numbers({1, 2}, {0, 0}), labels = page.labels({1}, {0});
  // The page, from here:
  const Value losses = cross_entropy(logits, labels);
  const Value focused = losses * square(expm1(-losses));  // (1 - p)^2 -ln p
  // to here.
  EXPECT_NEAR(page.first_of(focused), kHalf / 4, 1e-6);
}

TEST(LossesPage, OfEachClass) {
  Page page;
  Graph& graph = page.graph;
  const Value logits = page.numbers({1, 3}, {0, 0, 0}), targets = page.numbers({1, 3}, {1, 0, 1});
  // The page, from here:
  const Value rare = constant(graph, HostTensor::of<float>({3}, {10, 1, 2.5F}));  // negatives a positive
  const Value loss = mean(binary_cross_entropy_with_logits(logits, targets, {.positive_weights = rare}));
  // to here.
  EXPECT_NEAR(page.first_of(loss), kHalf * (10 + 1 + 2.5) / 3, 1e-5);
}

TEST(LossesPage, OfFewPositives) {
  Page page;
  const Value logits = page.numbers({1, 2}, {0, 0}), targets = page.numbers({1, 2}, {1, 0});
  // The page, from here:
  const Value losses = focal_loss(logits, targets, {.alpha = 0.25F, .gamma = 2});
  const Value num_positives = reduce_sum(targets);
  const Value loss = reduce_sum(losses) / maximum(num_positives, 1.0F);
  // to here.
  EXPECT_NEAR(page.first_of(loss), kHalf / 4, 1e-6);
}

TEST(LossesPage, OfMasks) {
  Page page;
  const Value logits = page.numbers({1, 2, 1, 1}, {0, 0}), masks = page.numbers({1, 2, 1, 1}, {1, 0});
  // The page, from here:
  const Value overlap = dice_loss(sigmoid(logits), masks, {.axes = {1, 2}});  // of each image and class
  const Value loss = mean(binary_cross_entropy_with_logits(logits, masks)) + overlap;
  // to here.
  EXPECT_NEAR(page.first_of(loss), kHalf + 1.0 / 3, 1e-6);
}

TEST(LossesPage, OfNumbersThatAreNotAllKnown) {
  Page page;
  const Value y = page.numbers({3}, {1, 2, 3}), targets = page.numbers({3}, {0.5F, NAN, 5});
  // The page, from here:
  const Value is_known = is_finite(targets);  // NaN: was not measured
  const Value filled = select(is_known, targets, 0.0F);
  const Value loss = weighted_mean(huber_loss(y, filled, {.delta = 1}), is_known);
  // to here.
  EXPECT_NEAR(page.first_of(loss), (0.125 + 1.5) / 2, 1e-6);
  EXPECT_NEAR(page.first_slope(loss, y), 0.25, 1e-6);
}

TEST(LossesPage, OfATeacher) {
  Page page;
  const Value logits = page.numbers({1, 2}, {0, 0}), teacher = page.numbers({1, 2}, {0, 4});
  // The page, from here:
  const float temperature = 2;
  const Value targets = softmax(stop_gradient(teacher) / temperature);
  const Value losses = kl_divergence(log_softmax(logits / temperature), targets);
  const Value loss = mean(losses) * (temperature * temperature);
  // to here.
  const double p = 1 / (1 + std::exp(-2.0)), q = 1 - p;
  EXPECT_NEAR(page.first_of(loss), 4 * (p * std::log(2 * p) + q * std::log(2 * q)), 1e-5);
}

TEST(LossesPage, OfVectors) {
  Page page;
  const Value anchors = page.numbers({1, 2}, {0, 0}), positives = page.numbers({1, 2}, {3, 4});
  const Value negatives = page.numbers({1, 2}, {1, 0}), pairs = page.numbers({1}, {-1});
  // The page, from here:
  const Value apart = mean(triplet_margin_loss(anchors, positives, negatives, {.margin = 0.2F}));
  const Value alike = mean(cosine_embedding_loss(positives, negatives, pairs, {.margin = 0.1F}));
  // to here.
  EXPECT_NEAR(page.first_of(apart), 4.2, 1e-5);
  EXPECT_NEAR(page.first_of(alike), 0.5, 1e-6);
}

TEST(LossesPage, OfTokensAlikeInAllMicroBatches) {
  Page page;
  const Value logits = page.numbers({2, 2}, {0, 0, 0, 0}), labels = page.labels({2}, {0, -100});
  // The page, from here:
  const float tokens_a_micro_batch = 2048;  // about as many as count
  const Value loss = reduce_sum(cross_entropy(logits, labels)) / tokens_a_micro_batch;
  // to here.
  EXPECT_NEAR(page.first_of(loss), kHalf / 2048, 1e-9);
}

TEST(LossesPage, OfBf16) {
  Graph graph;
  const Value images = placeholder(graph, "images", {2, 3}), labels = placeholder(graph, "labels", {2}, Dtype::i32);
  // The page, from here:
  const MixedPrecision precision(graph);
  const Value logits = dense(images, {.features = 10});  // bf16
  const Value losses = cross_entropy(logits, labels);    // f32
  // to here.
  EXPECT_EQ(logits.dtype(), Dtype::bf16);
  EXPECT_EQ(losses.dtype(), Dtype::f32);
}

TEST(LossesPage, OfLabelsWithoutTheirPlaces) {
  Page page;
  const Value x = page.numbers({1, 3, 2}, {1, 0, 0, 1, 1, 1});
  const Value labels = page.labels({1, 2}, {5, 0}), steps = page.labels({1}, {3}), lengths = page.labels({1}, {1});
  // The page, from here:
  const Value logits = dense(x, {.features = 28});  // of x [N, T, C]: a blank and 27 letters
  const Value losses = ctc_loss(logits, labels, steps, lengths, {.zero_infinity = true});
  const Value loss = mean(losses / cast(lengths, Dtype::f32));  // PyTorch's mean, of lengths above 0
  // to here.
  EXPECT_GT(page.first_of(loss), 0);
  EXPECT_TRUE(std::isfinite(page.first_slope(loss, logits)));
}

}  // namespace
}  // namespace sectionflow::losses_page

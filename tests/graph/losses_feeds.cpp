// What feeds decide: losses hold dimensions that were unknown to what they promise of known ones.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/losses.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using Loss = std::function<Value(const std::vector<Value>&)>;

/// Whether a run with placeholders of unknown dimensions, fed with these shapes, is refused as one of wrong shapes.
bool is_refused(const Loss& loss, const std::vector<Shape>& shapes) {
  Graph graph;
  std::vector<Value> inputs;
  Feeds feeds;
  for (const Shape& shape : shapes) {
    const std::vector<std::int64_t> unknown(static_cast<std::size_t>(shape.rank()), kDynamic);
    inputs.push_back(placeholder(graph, "x", Shape(unknown)));
    feeds.emplace_back(inputs.back(), HostTensor(Dtype::f32, shape));
  }
  const Value value = loss(inputs);
  Session session(graph, {.threads = 1});
  session.initialize();
  try {
    (void)session.run({value}, feeds);
    return false;
  } catch (const ShapeError&) {
    return true;
  }
}

TEST(LossesOfUnknownShapes, RefuseFeedsThatWouldCompareAllPairs) {
  const Loss of_two[] = {[](const auto& in) { return squared_error(in[0], in[1]); },
                         [](const auto& in) { return huber_loss(in[0], in[1]); },
                         [](const auto& in) { return hinge_loss(in[0], in[1]); },
                         [](const auto& in) { return focal_loss(in[0], in[1]); },
                         [](const auto& in) { return binary_cross_entropy_with_logits(in[0], in[1]); },
                         [](const auto& in) { return kl_divergence(in[0], in[1]); }};
  for (const Loss& loss : of_two) {
    EXPECT_TRUE(is_refused(loss, {{4, 1}, {1, 4}}));
    EXPECT_TRUE(is_refused(loss, {{2, 1}, {2, 3}}));
    EXPECT_TRUE(is_refused(loss, {{1}, {4}}));
    EXPECT_FALSE(is_refused(loss, {{4, 3}, {4, 3}}));
    EXPECT_FALSE(is_refused(loss, {{4, 3}, {1, 3}})) << "a target is broadcast";
  }
}

TEST(LossesOfUnknownShapes, OfMasksRepeatNoMask) {
  const Loss dice_of_two = [](const auto& in) { return dice_loss(in[0], in[1]); };
  EXPECT_TRUE(is_refused(dice_of_two, {{1, 3}, {4, 3}}));
  EXPECT_TRUE(is_refused(dice_of_two, {{4, 3}, {1, 3}}));
  EXPECT_TRUE(is_refused(dice_of_two, {{4, 3}, {4, 1}}));
  EXPECT_FALSE(is_refused(dice_of_two, {{4, 3}, {4, 3}}));
}

TEST(LossesOfUnknownShapes, RefuseMoreVectorsThanThereAreAnchors) {
  Graph graph;
  const auto vectors = [&](const char* name) { return placeholder(graph, name, {kDynamic, 2}); };
  const Value a = vectors("a"), p = vectors("p"), n = vectors("n"), t = placeholder(graph, "t", {kDynamic});
  const Value triplet = triplet_margin_loss(a, p, n), pairs = cosine_embedding_loss(a, p, t);
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto fed = [&](std::int64_t of_a, std::int64_t of_others, std::int64_t of_t) {
    Feeds feeds;
    feeds.emplace_back(a, HostTensor(Dtype::f32, {of_a, 2}));
    feeds.emplace_back(p, HostTensor(Dtype::f32, {of_others, 2}));
    feeds.emplace_back(n, HostTensor(Dtype::f32, {of_others, 2}));
    feeds.emplace_back(t, HostTensor(Dtype::f32, {of_t}));
    return feeds;
  };
  EXPECT_NO_THROW(session.run({triplet, pairs}, fed(3, 3, 3)));
  EXPECT_THROW(session.run({triplet}, fed(1, 4, 1)), ShapeError);
  EXPECT_THROW(session.run({pairs}, fed(1, 1, 3)), ShapeError);
}

TEST(LossesOfUnknownShapes, RefuseLabelsInAnotherOrder) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {kDynamic, kDynamic, 5});
  const Value labels = placeholder(graph, "labels", {kDynamic, kDynamic}, Dtype::i32);
  const Value losses = cross_entropy(logits, labels);
  Session session(graph, {.threads = 1});
  session.initialize();
  const HostTensor fed(Dtype::f32, {2, 3, 5});
  EXPECT_NO_THROW(session.run({losses}, {{logits, fed}, {labels, HostTensor(Dtype::i32, {2, 3})}}));
  for (const Shape& other : {Shape{3, 2}, Shape{1, 6}, Shape{6, 1}, Shape{1, 3}}) {
    EXPECT_THROW(session.run({losses}, {{logits, fed}, {labels, HostTensor(Dtype::i32, other)}}), ShapeError);
  }
}

TEST(LossesOfUnknownShapes, RefuseUnknownLabelsBesideKnownRows) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, 3, 5}), rows = placeholder(graph, "rows", {kDynamic, 4, 2});
  EXPECT_THROW(cross_entropy(logits, placeholder(graph, "a", {kDynamic, kDynamic}, Dtype::i32)), ShapeError);
  EXPECT_THROW(cross_entropy(rows, placeholder(graph, "b", {4, kDynamic}, Dtype::i32)), ShapeError);
  EXPECT_NO_THROW(cross_entropy(rows, placeholder(graph, "c", {kDynamic, 4}, Dtype::i32)));
}

TEST(LossesOfUnknownShapes, OfVectorsOfUnknownSizeAreRefused) {
  Graph graph;
  const Value a = placeholder(graph, "a", {2, kDynamic});
  EXPECT_THROW(cosine_similarity(a, a), ShapeError);
}

TEST(LossesOfTwoGraphs, AreRefusedByNameAndLeaveBothAsTheyWere) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {kDynamic, 4});
  const Value labels = placeholder(other, "labels", {kDynamic}, Dtype::i32), y = placeholder(other, "y", {kDynamic, 4});
  const Value narrow = placeholder(other, "narrow", {kDynamic, 4}, Dtype::bf16);
  const std::string before = graph_text(graph) + graph_text(other);
  const std::function<Value()> calls[] = {
      [&] { return cross_entropy(x, labels); },
      [&] { return binary_cross_entropy_with_logits(x, narrow); },
      [&] { return binary_cross_entropy_with_logits(x, x, {.positive_weights = y}); },
      [&] { return focal_loss(x, y); },
      [&] { return absolute_error(x, narrow); },
      [&] { return kl_divergence(x, y, {.log_targets = true}); },
      [&] { return cosine_similarity(x, y); },
      [&] { return triplet_margin_loss(x, x, y); },
      [&] { return dice_loss(x, narrow); },
      [&] { return weighted_mean(x, narrow); }};
  for (const auto& call : calls) {
    try {
      (void)call();
      ADD_FAILURE() << "took values of two graphs";
    } catch (const ArgumentError& error) {
      EXPECT_NE(error.message().find("belongs to another graph"), std::string::npos) << error.message();
    }
    EXPECT_EQ(graph_text(graph) + graph_text(other), before);
  }
}

TEST(BinaryCrossEntropy, KeepsTheDigitsOfASmallSmoothing) {
  for (const float smoothing : {0.05F, 0.001F, 1e-8F}) {
    for (const float x : {10.3F, 15.7F, 50.0F}) {
      Graph graph;
      const Value loss =
          binary_cross_entropy_with_logits(constant(graph, x), constant(graph, 1.0F), {.label_smoothing = smoothing});
      Session session(graph, {.threads = 1});
      session.initialize();
      const double s = static_cast<double>(smoothing), at = static_cast<double>(x);
      const double tail = std::log1p(std::exp(-at));
      const double exact = (1 - s / 2) * tail + s / 2 * (at + tail);
      EXPECT_NEAR(session.run({loss}, {})[0].item<float>() / exact, 1, 8 * 0x1p-23) << smoothing << " at " << x;
    }
  }
}

}  // namespace
}  // namespace sectionflow

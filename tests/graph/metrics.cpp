#include "graph/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

/// Rows of logits and their labels, as they are fed.
struct Rows {
  Rows(std::int64_t classes, Dtype label_type)
      : logits(placeholder(graph, "logits", {kDynamic, classes})),
        labels(placeholder(graph, "labels", {kDynamic}, label_type)) {}
  float of(Value metric, const std::vector<float>& x, const std::vector<std::int64_t>& classes) {
    const auto rows = static_cast<std::int64_t>(classes.size());
    HostTensor y(labels.dtype(), {rows});
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (labels.dtype() == Dtype::i64) y.values<std::int64_t>()[i] = classes[i];
      if (labels.dtype() == Dtype::i32) y.values<std::int32_t>()[i] = static_cast<std::int32_t>(classes[i]);
    }
    const HostTensor fed = HostTensor::of<float>({rows, logits.shape()[1]}, x);
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    return session.run({metric}, {{logits, fed}, {labels, y}})[0].item<float>();
  }
  Graph graph;
  Value logits, labels;
};

TEST(Accuracy, IsThePartOfRowsWhoseLargestLogitIsThatOfTheLabel) {
  for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
    Rows rows(3, dtype);
    const Value metric = accuracy(rows.logits, rows.labels);
    const std::vector<float> x = {1, 3, 2, 9, 0, 0, -1, -2, -3, 0, 0, 1};
    EXPECT_EQ(rows.of(metric, x, {1, 0, 0, 2}), 1);
    EXPECT_EQ(rows.of(metric, x, {1, 2, 1, 2}), 0.5F);
    EXPECT_EQ(rows.of(metric, x, {0, 1, 2, 0}), 0);
  }
}

TEST(Accuracy, CountsTheFirstOfEqualLogitsAndNoLabelOutsideOfTheClasses) {
  Rows rows(3, Dtype::i64);
  const Value metric = accuracy(rows.logits, rows.labels);
  EXPECT_EQ(rows.of(metric, {5, 5, 5, 5, 5, 5}, {0, 1}), 0.5F);
  EXPECT_EQ(rows.of(metric, {5, 1, 1, 1, 1, 5}, {-1, 3}), 0);
  // As i32 it would be class 0.
  EXPECT_EQ(rows.of(metric, {5, 1, 1}, {std::int64_t{1} << 32}), 0);
}

TEST(Accuracy, OfLabelsInFullAndOfMoreAxesThanOne) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {2, 2, 3}), full = placeholder(graph, "full", {2, 2, 3});
  const HostTensor x = HostTensor::of<float>({2, 2, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1});
  const HostTensor y = HostTensor::of<float>({2, 2, 3}, {.8F, .1F, .1F, .8F, .1F, .1F, .1F, .1F, .8F, .1F, .1F, .8F});
  Session session(graph, {.threads = 1});
  session.initialize();
  EXPECT_EQ(session.run({accuracy(logits, full)}, {{logits, x}, {full, y}})[0].item<float>(), 0.75F);
}

/// Whether class `label` is among the k first of the row, as sorting finds it.
bool is_among(const std::vector<float>& row, std::size_t label, std::size_t k) {
  std::vector<std::size_t> order(row.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  return std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), label) !=
         order.begin() + static_cast<std::ptrdiff_t>(k);
}

TEST(TopKAccuracy, FindsWhatSortingFindsWithTies) {
  constexpr std::int64_t kClasses = 5;
  for (std::int64_t k = 1; k <= kClasses; ++k) {
    Rows rows(kClasses, Dtype::i32);
    const Value metric = top_k_accuracy(rows.logits, rows.labels, k);
    const Value first = accuracy(rows.logits, rows.labels);
    std::vector<float> x;
    std::vector<std::int64_t> labels;
    float right = 0;
    for (int n = 0; n < 60; ++n) {
      std::vector<float> row;
      // Few different numbers, so that many are equal, -infinity among them.
      for (int c = 0; c < kClasses; ++c) {
        const int drawn = (n * 7 + c * c * 3 + n * c) % 4;
        row.push_back(drawn == 3 ? -kInfinity : static_cast<float>(drawn));
      }
      labels.push_back(n % kClasses);
      right += is_among(row, static_cast<std::size_t>(n % kClasses), static_cast<std::size_t>(k)) ? 1.0F : 0.0F;
      x.insert(x.end(), row.begin(), row.end());
    }
    EXPECT_FLOAT_EQ(rows.of(metric, x, labels), right / 60) << k;
    EXPECT_TRUE(k > 1 || rows.of(first, x, labels) == rows.of(metric, x, labels));
  }
}

TEST(TopKAccuracy, LabelsOutsideOfTheClassesAndLogitsThatAreNanAreWrong) {
  Rows rows(3, Dtype::i64);
  for (const std::int64_t k : {1, 2, 3}) {
    const Value metric = top_k_accuracy(rows.logits, rows.labels, k);
    EXPECT_EQ(rows.of(metric, {1, 1, 1, -kInfinity, -kInfinity, -kInfinity}, {3, -1}), 0) << k;
    EXPECT_EQ(rows.of(metric, {kNan, 1, 2, kNan, kNan, kNan}, {0, 1}), 0) << k;
  }
  EXPECT_EQ(rows.of(top_k_accuracy(rows.logits, rows.labels, 2), {kNan, 1, 2}, {2}), 1) << "behind the NaN alone";
  EXPECT_EQ(rows.of(top_k_accuracy(rows.logits, rows.labels, 1), {kNan, 1, 2}, {2}), 0);
}

TEST(TopKAccuracy, OfFiniteLogitsComputesNothingThatValueChecksRefuse) {
  Rows rows(3, Dtype::i32);
  const Value metric = top_k_accuracy(rows.logits, rows.labels, 2);
  Session session(rows.graph, {.threads = 1});
  session.initialize();
  session.set_value_checks({.nan = true, .infinity = true});
  const HostTensor x = HostTensor::of<float>({2, 3}, {3, 1, 2, -3, -1, -2});
  const HostTensor y = HostTensor::of<std::int32_t>({2}, {0, 0});
  EXPECT_EQ(session.run({metric}, {{rows.logits, x}, {rows.labels, y}})[0].item<float>(), 0.5F);
}

TEST(TopKAccuracy, OfWrongArgumentsIsRefusedAndAddsNothing) {
  Rows rows(3, Dtype::i32);
  const Value open = placeholder(rows.graph, "open", {2, kDynamic});
  const int before = rows.graph.num_nodes();
  for (const std::int64_t k : {0, -1, 4}) {
    EXPECT_THAT([&] { (void)top_k_accuracy(rows.logits, rows.labels, k); },
                ThrowsMessage<ArgumentError>(HasSubstr("wanted 1 to 3")));
  }
  EXPECT_THROW(top_k_accuracy(open, rows.labels, 1), ShapeError);
  EXPECT_THROW(top_k_accuracy(rows.logits, rows.logits, 1), ArgumentError);
  EXPECT_THROW(accuracy(rows.labels, rows.labels), ArgumentError);
  EXPECT_THROW(accuracy(rows.logits, open), ShapeError);
  EXPECT_EQ(rows.graph.num_nodes(), before);
}

TEST(Dice, IsTheOverlapOfMasks) {
  Graph graph;
  const Value p = placeholder(graph, "p", {2, 4}), t = placeholder(graph, "t", {2, 4});
  const HostTensor of_p = HostTensor::of<float>({2, 4}, {1, 1, 0, 0, 0, 0, 0, 0});
  const HostTensor of_t = HostTensor::of<float>({2, 4}, {1, 0, 1, 0, 0, 0, 0, 0});
  const Value all = dice(p, t, {.smooth = 1e-6F}), each = dice(p, t, {.axes = {-1}});
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  const auto found = session.run({all, each}, {{p, of_p}, {t, of_t}});
  EXPECT_NEAR(found[0].item<float>(), 0.5F, 1e-5F);
  // (2 + 1) / (4 + 1), and 1 for the two empty masks.
  EXPECT_FLOAT_EQ(found[1].item<float>(), (0.6F + 1) / 2);
}

TEST(Dice, MayBeTrainedBy) {
  Graph graph;
  const Value p = placeholder(graph, "p", {4}), t = placeholder(graph, "t", {4});
  const Value slope = gradients(dice(p, t), {p}).front();
  Session session(graph, {.threads = 1});
  session.initialize();
  const auto found = session.run(
      {slope}, {{p, HostTensor::of<float>({4}, {.5F, .5F, .5F, .5F})}, {t, HostTensor::of<float>({4}, {1, 1, 0, 0})}});
  EXPECT_GT(found[0].values<float>()[0], 0);
  EXPECT_LT(found[0].values<float>()[3], 0);
}

TEST(Dice, OfWrongArgumentsIsRefused) {
  Graph graph;
  const Value p = placeholder(graph, "p", {4}), t = placeholder(graph, "t", {3});
  EXPECT_THROW(dice(p, t), ShapeError);
  EXPECT_THROW(dice(p, placeholder(graph, "labels", {4}, Dtype::i32)), ArgumentError);
  EXPECT_THROW(dice(p, p, {.axes = {2}}), ShapeError);
  for (const float smooth : {0.0F, -1.0F, kNan, kInfinity}) EXPECT_THROW(dice(p, p, {.smooth = smooth}), ArgumentError);
}

TEST(Perplexity, IsTheExponentialOfTheMeanLoss) {
  Graph graph;
  const Value losses = placeholder(graph, "losses", {kDynamic});
  const Value metric = perplexity(losses);
  Session session(graph, {.threads = 1});
  session.initialize();
  const float of_ten = std::log(10.0F);
  EXPECT_FLOAT_EQ(session.run({metric}, {{losses, HostTensor::of<float>({2}, {of_ten, of_ten})}})[0].item<float>(), 10);
  EXPECT_THROW(perplexity(placeholder(graph, "whole", {2}, Dtype::i32)), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

// Losses of rows, of vectors and of masks: values and gradients beside formulas in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/graph/losses_case.h"
#include "tests/support/broadcast_reference.h"

namespace sectionflow::loss_case {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// One number a row of two, or three, tensors.
using RowFormula = double (*)(const double* a, const double* b, const double* c, std::size_t length);

struct RowLoss {
  const char* name;
  std::vector<std::pair<double, double>> ranges;  // one an input
  Value (*build)(const std::vector<Value>&);
  RowFormula reference;
};

double dot(const double* a, const double* b, std::size_t length) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) sum += a[i] * b[i];
  return sum;
}
double cosine(const double* a, const double* b, std::size_t length) {
  return dot(a, b, length) / std::sqrt(dot(a, a, length) * dot(b, b, length));
}
double distance_of(const double* a, const double* b, std::size_t length) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}
double divergence(const double* log_q, const double* p, std::size_t length) {
  double sum = 0;
  for (std::size_t i = 0; i < length; ++i) sum += p[i] > 0 ? p[i] * (std::log(p[i]) - log_q[i]) : 0.0;
  return sum;
}

const RowLoss kRowLosses[] = {
    {"kl_divergence",
     {{-4, -0.5}, {0.1, 1}},
     [](const auto& in) { return kl_divergence(in[0], in[1]); },
     [](const double* a, const double* b, const double*, std::size_t n) { return divergence(a, b, n); }},
    {"kl_divergence_of_logarithms",
     {{-4, -0.5}, {-4, 0}},
     [](const auto& in) { return kl_divergence(in[0], in[1], {.log_targets = true}); },
     [](const double* a, const double* b, const double*, std::size_t n) {
       double sum = 0;
       for (std::size_t i = 0; i < n; ++i) sum += std::exp(b[i]) * (b[i] - a[i]);
       return sum;
     }},
    {"cosine_similarity",
     {{-1, 1}, {-1, 1}},
     [](const auto& in) { return cosine_similarity(in[0], in[1]); },
     [](const double* a, const double* b, const double*, std::size_t n) { return cosine(a, b, n); }},
    {"triplet_margin",
     {{-1, 1}, {-1, 1}, {-1, 1}},
     [](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2]); },
     [](const double* a, const double* b, const double* c, std::size_t n) {
       return std::max(0.0, distance_of(a, b, n) - distance_of(a, c, n) + 1);
     }},
    {"triplet_margin_with_swap",
     {{-1, 1}, {-1, 1}, {-1, 1}},
     [](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2], {.margin = 0.5F, .swap = true}); },
     [](const double* a, const double* b, const double* c, std::size_t n) {
       return std::max(0.0, distance_of(a, b, n) - std::min(distance_of(a, c, n), distance_of(b, c, n)) + 0.5);
     }},
};

std::vector<OpCase> row_cases() {
  const std::pair<const char*, Shape> table[] = {{"vector", {7}},     {"rows", {5, 6}},  {"of_one", {4, 1}},
                                                 {"odd", {3, 2, 17}}, {"empty", {0, 5}}, {"many", {1100, 33}}};
  std::vector<OpCase> all;
  for (const RowLoss& loss : kRowLosses) {
    for (const auto& [name, shape] : table) {
      const auto length = static_cast<std::size_t>(shape[-1]);
      std::vector<CaseInput> inputs;
      for (const auto& [low, high] : loss.ranges) inputs.push_back(input(shape, low, high));
      OpCase made{.name = std::string(loss.name) + "_" + name,
                  .inputs = std::move(inputs),
                  .build = [&loss](Graph&, const std::vector<Value>& in) { return std::vector{loss.build(in)}; },
                  .reference =
                      [&loss, length](const std::vector<Doubles>& in) {
                        Doubles y;
                        for (std::size_t at = 0; at + length <= in[0].size(); at += length) {
                          const double* last = in.size() > 2 ? in[2].data() + at : nullptr;
                          y.push_back(loss.reference(in[0].data() + at, in[1].data() + at, last, length));
                        }
                        return std::vector<Doubles>{y};
                      },
                  .tolerance = {.relative = 8, .absolute = 8},
                  .dynamic_batch = shape.rank() > 1,
                  .same_bits_for_any_threads = true};
      all.push_back(made);
      if (name == std::string("odd")) all.push_back(in_bf16(made, {}, 8));
    }
  }
  return all;
}

class RowLosses : public testing::TestWithParam<OpCase> {};
TEST_P(RowLosses, MatchTheirFormulasWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, RowLosses, testing::ValuesIn(row_cases()), case_name);

constexpr float kNone = -std::numeric_limits<float>::infinity();

TEST(KlDivergence, TakesImpossibleClassesForNothing) {
  // The third class has probability 0 by both, the second by the target alone.
  const Fed log_q = numbers({2, 3}, {std::log(0.25F), std::log(0.75F), kNone, -1e4F, 0, kNone});
  const Fed p = numbers({2, 3}, {1, 0, 0, 0, 1, 0});
  const Fed log_p = numbers({2, 3}, {0, kNone, kNone, kNone, 0, -1e4F});
  for (const bool is_log : {false, true}) {
    const Found found = found_of([=](const auto& in) { return kl_divergence(in[0], in[1], {.log_targets = is_log}); },
                                 {log_q, is_log ? log_p : p}, {0, 1});
    expect_near(found.losses, {std::log(4.0), 0}, 2);
    EXPECT_EQ(found.gradients[0], (Doubles{-1, 0, 0, 0, -1, 0}));
    // p (ln p - ln q + 1) or ln p - ln q + 1.
    expect_near(found.gradients[1], {std::log(4.0) + 1, 0, 0, 0, 1, 0}, 2);
  }
}

TEST(KlDivergence, IsInfiniteWhereAPossibleClassIsNot) {
  const Found found = found_of([](const auto& in) { return kl_divergence(in[0], in[1]); },
                               {numbers({1, 2}, {0, kNone}), numbers({1, 2}, {0.5F, 0.5F})});
  EXPECT_EQ(found.losses[0], std::numeric_limits<double>::infinity());
  EXPECT_EQ(found.gradients[0], (Doubles{-0.5, -0.5}));
}

TEST(KlDivergence, OfWrongProbabilitiesIsNan) {
  for (const float wrong : {-0.5F, std::numeric_limits<float>::quiet_NaN()}) {
    const Found found = found_of([](const auto& in) { return kl_divergence(in[0], in[1]); },
                                 {numbers({1, 2}, {-1, -1}), numbers({1, 2}, {wrong, 0.5F})});
    EXPECT_TRUE(std::isnan(found.losses[0]));
  }
}

TEST(KlDivergence, OfLargeLogitsIsFinite) {
  const std::vector<float> logits = {1e4F, -1e4F, 0, 0, 5, 1e4F}, others = {-1e4F, 1e4F, 0, 1e4F, 0, 0};
  const auto build = [](const auto& in) { return kl_divergence(log_softmax(in[0]), softmax(in[1])); };
  const Found found = found_of(build, {numbers({2, 3}, logits), numbers({2, 3}, others)}, {0, 1});
  // Each is sure of a class.
  expect_near(found.losses, {2e4, 1e4}, 4);
  expect_near(found.gradients[0], {1, -1, 0, -1, 0, 1}, 2, 1e-30);
  for (const double slope : found.gradients[1]) EXPECT_TRUE(std::isfinite(slope));
}

TEST(KlDivergence, TakesOneTargetForAllRows) {
  const std::vector<float> log_q = {-1, -2, -3, -0.5F, -0.25F, -4}, p = {0.5F, 0.25F, 0.25F};
  const Found found = found_of([](const auto& in) { return kl_divergence(in[0], in[1]); },
                               {numbers({2, 3}, log_q), numbers(p)}, {0, 1});
  Doubles losses(2), dp(3, 0);
  for (std::size_t i = 0; i < 6; ++i) {
    losses[i / 3] += p[i % 3] * (std::log(double{p[i % 3]}) - log_q[i]);
    dp[i % 3] += std::log(double{p[i % 3]}) + 1 - log_q[i];
  }
  expect_near(found.losses, losses, 8);
  expect_near(found.gradients[1], dp, 8);
}

TEST(CosineSimilarity, OfAllPairsAndAlongAnyAxis) {
  Doubles a, b;
  for (int i = 0; i < 2 * 3 * 4; ++i) a.push_back(static_cast<float>(std::sin(i + 1)));
  for (int i = 0; i < 5 * 4; ++i) b.push_back(static_cast<float>(std::cos(2 * i)));
  const auto of = [](int axis) {
    return [=](const auto& in) { return cosine_similarity(in[0], in[1], {.axis = axis}); };
  };
  Doubles pairs;
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t k = 0; k < 5; ++k) pairs.push_back(cosine(&a[i * 4], &b[k * 4], 4));
  }
  const Fed first{{Dtype::f32, {2, 3, 1, 4}}, a}, second{{Dtype::f32, {5, 4}}, b};
  for (const int axis : {-1, 3}) expect_near(found_of(of(axis), {first, second}).losses, pairs, 0, 8 * kF32Epsilon);
  // Channels in the middle: [N, C, W] beside one of a row.
  Doubles by_column;
  for (const std::size_t n : {0, 1}) {
    for (std::size_t w = 0; w < 4; ++w) {
      const double x[] = {a[n * 12 + w], a[n * 12 + 4 + w], a[n * 12 + 8 + w]}, y[] = {b[0], b[1], b[2]};
      by_column.push_back(cosine(x, y, 3));
    }
  }
  const Fed images{{Dtype::f32, {2, 3, 4}}, a}, one{{Dtype::f32, {3, 1}}, {b[0], b[1], b[2]}};
  for (const int axis : {-2, 1}) expect_near(found_of(of(axis), {images, one}).losses, by_column, 0, 8 * kF32Epsilon);
}

TEST(CosineSimilarity, OfShortVectorsCountsThemAsEpsilonLong) {
  const Found found = found_of([](const auto& in) { return cosine_similarity(in[0], in[1], {.epsilon = 0.5F}); },
                               {numbers({3, 2}, {0, 0, 0.25F, 0, 3, 4}), numbers({3, 2}, {1, 0, 2, 0, 4, 3})}, {0, 1});
  expect_near(found.losses, {0, 0.5, 24.0 / 25}, 8);
  // b / (|b| epsilon) where a is short, and (b / |b| - s a / |a|) / |a| elsewhere.
  expect_near(found.gradients[0], {2, 0, 2, 0, (0.8 - 0.96 * 0.6) / 5, (0.6 - 0.96 * 0.8) / 5}, 16);
  // a / (|b| epsilon) less what goes through |b|.
  EXPECT_EQ(found.gradients[1][0], 0);
  EXPECT_NEAR(found.gradients[1][2], 0, 1e-7);
}

TEST(CosineSimilarity, IsTheSameForVectorsOfAnyLength) {
  for (const float scale : {1e-6F, 1.0F, 1e4F, 1e15F}) {
    const Found found = found_of([](const auto& in) { return cosine_similarity(in[0], in[1]); },
                                 {numbers({1, 2}, {3 * scale, 4 * scale}), numbers({1, 2}, {4, 3})});
    expect_near(found.losses, {0.96}, 8);
    expect_near(found.gradients[0], {(0.8 - 0.96 * 0.6) / 5 / scale, (0.6 - 0.96 * 0.8) / 5 / scale}, 24);
  }
}

TEST(CosineEmbedding, DrawsTogetherAndPushesApart) {
  const std::vector<float> a = {3, 4, 3, 4, 3, 4, -3, -4, 0, 0}, b = {4, 3, 4, 3, -4, 3, 4, 3, 1, 1};
  const auto build = [](const auto& in) { return cosine_embedding_loss(in[0], in[1], in[2], {.margin = 0.25F}); };
  const Found found = found_of(build, {numbers({5, 2}, a), numbers({5, 2}, b), numbers({1, -1, -1, -1, 1})});
  expect_near(found.losses, {0.04, 0.71, 0, 0, 1}, 0, 8 * kF32Epsilon);
  const Doubles& dx = found.gradients[0];
  const double x = (0.8 - 0.96 * 0.6) / 5, y = (0.6 - 0.96 * 0.8) / 5;
  expect_near({dx.begin(), dx.begin() + 8}, {-x, -y, x, y, 0, 0, 0, 0}, 16);
}

TEST(TripletMargin, HasAFiniteGradientWhereTwoAreEqual) {
  const Fed anchors = numbers({3, 2}, {1, 2, 1, 2, 1, 2}), positives = numbers({3, 2}, {1, 2, 1, 2, 4, 6});
  const Fed negatives = numbers({3, 2}, {1, 2, 1, 2.5F, 1, 8});
  const Found found = found_of([](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2]); },
                               {anchors, positives, negatives}, {0, 1, 2});
  expect_near(found.losses, {1, 0.5, 0}, 0, 1.1e-6);
  EXPECT_EQ(found.gradients[0], (Doubles{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(found.gradients[1], (Doubles{0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(found.gradients[2], (Doubles{0, 0, 0, -1, 0, 0}));
}

TEST(DiceLoss, IsOneLessDiceInEveryDtype) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::boolean}) {
    const Fed p{{dtype == Dtype::boolean ? Dtype::f32 : dtype, {2, 2}}, {1, 0.5, 0, 0}};
    const Fed t{{dtype, {2, 2}}, {1, 0, 1, 0}};
    const Found found = found_of([](const auto& in) { return dice_loss(in[0], in[1], {.axes = {-1}}); }, {p, t});
    // (2 + 1) / (2.5 + 1) and 1 / 2.
    expect_near(found.losses, {1 - (3 / 3.5 + 0.5) / 2}, 8);
    const double slope = 0.5 * (3 / (3.5 * 3.5) - 2 / 3.5), other = 0.5 * 3 / (3.5 * 3.5);
    expect_near(found.gradients[0], {slope, other, 0.5 * (1.0 / 4 - 1), 0.5 / 4}, dtype == Dtype::bf16 ? 0x1p15 : 16);
  }
}

TEST(RowLosses, RefuseWhatDoesNotFitAndAddNothing) {
  Graph graph;
  const Value rows = placeholder(graph, "rows", {kDynamic, 4}), other = placeholder(graph, "other", {kDynamic, 3});
  const Value column = placeholder(graph, "column", {kDynamic, 1}), scalar = placeholder(graph, "scalar", {});
  const Value whole = placeholder(graph, "whole", {kDynamic, 4}, Dtype::i64);
  const int before = graph.num_nodes();
  for (const Value& wrong : {other, placeholder(graph, "more", {2, kDynamic, 4})}) {
    EXPECT_THROW(kl_divergence(rows, wrong), ShapeError);
    EXPECT_THROW(triplet_margin_loss(rows, wrong, rows), ShapeError);
    EXPECT_THROW(triplet_margin_loss(rows, rows, wrong), ShapeError);
  }
  EXPECT_THROW(kl_divergence(scalar, scalar), ShapeError);
  EXPECT_THROW(triplet_margin_loss(scalar, scalar, scalar), ShapeError);
  EXPECT_THROW(cosine_similarity(scalar, scalar), ShapeError);
  EXPECT_THROW(cosine_similarity(rows, other), ShapeError);
  // A number along the axis is no vector.
  EXPECT_THAT(
      [&] { (void)cosine_similarity(rows, column); },
      ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr("'column'"), HasSubstr("of one known size along axis -1"))));
  EXPECT_THROW(cosine_similarity(rows, scalar), ShapeError);
  for (const int axis : {2, -3}) EXPECT_THROW(cosine_similarity(rows, rows, {.axis = axis}), ShapeError);
  EXPECT_THROW(cosine_embedding_loss(rows, rows, column), ShapeError);
  EXPECT_THROW(kl_divergence(rows, whole), ArgumentError);
  EXPECT_THROW(cosine_similarity(whole, rows), ArgumentError);
  EXPECT_THROW(dice_loss(rows, whole), ArgumentError);
  EXPECT_THROW(dice_loss(rows, other), ShapeError);
  for (const float wrong : {0.0F, -1.0F, 1e-20F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW(cosine_similarity(rows, rows, {.epsilon = wrong}), ArgumentError);
    EXPECT_THROW(triplet_margin_loss(rows, rows, rows, {.epsilon = wrong}), ArgumentError);
  }
  EXPECT_THROW(triplet_margin_loss(rows, rows, rows, {.margin = -1}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before + 1);
}

}  // namespace
}  // namespace sectionflow::loss_case

// Losses of elements: values and gradients beside formulas in double.
#include "graph/losses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/ops/arithmetic.h"
#include "graph/ops/identities.h"
#include "tests/graph/losses_case.h"
#include "tests/support/broadcast_reference.h"

namespace sectionflow::loss_case {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// A loss of pairs, and the same of one pair in double with its derivative by x.
struct ElementLoss {
  const char* name;
  std::pair<double, double> x, target;  // ranges
  Value (*build)(Value x, Value target);
  double (*reference)(double x, double target);
  double (*derivative)(double x, double target);
  double epsilons, gamma = 0;  // the error that is promised: epsilons + 2 gamma (1 + |x|) of the loss

  double promised(double largest) const { return epsilons + 2 * gamma * (1 + largest); }
};

// Positive weights and the like, numbers of f32 that double has too.
constexpr double kWeight = 3, kSmoothing = 0.125, kAlpha = 0.25, kDelta = 0.75;

double smoothed(double t) {
  return t * (1 - kSmoothing) + kSmoothing / 2;
}
double focal_of(double x, double t, double alpha, double other_alpha, double gamma) {
  const double at_1 = std::exp(-gamma * softplus_of(x)) * softplus_of(-x);
  const double at_0 = std::exp(-gamma * softplus_of(-x)) * softplus_of(x);
  return t * alpha * at_1 + (1 - t) * other_alpha * at_0;
}
double focal_slope(double x, double t, double alpha, double other_alpha, double gamma) {
  const double p = sigmoid_of(x), q = sigmoid_of(-x);
  const double at_1 = -std::exp(-gamma * softplus_of(x)) * (gamma * p * softplus_of(-x) + q);
  const double at_0 = std::exp(-gamma * softplus_of(-x)) * (gamma * q * softplus_of(x) + p);
  return t * alpha * at_1 + (1 - t) * other_alpha * at_0;
}

const ElementLoss kElementLosses[] = {
    {"binary_cross_entropy",
     {-6, 6},
     {0, 1},
     [](Value x, Value t) { return binary_cross_entropy_with_logits(x, t); },
     [](double x, double t) { return t * softplus_of(-x) + (1 - t) * softplus_of(x); },
     [](double x, double t) { return (1 - t) * sigmoid_of(x) - t * sigmoid_of(-x); },
     8},
    {"weighted_binary_cross_entropy",
     {-6, 6},
     {0, 1},
     [](Value x, Value t) {
       return binary_cross_entropy_with_logits(x, t, {.positive_weight = kWeight, .label_smoothing = kSmoothing});
     },
     [](double x, double t) { return kWeight * smoothed(t) * softplus_of(-x) + (1 - smoothed(t)) * softplus_of(x); },
     [](double x, double t) { return (1 - smoothed(t)) * sigmoid_of(x) - kWeight * smoothed(t) * sigmoid_of(-x); },
     8},
    {"focal",
     {-6, 6},
     {0, 1},
     [](Value x, Value t) { return focal_loss(x, t); },
     [](double x, double t) { return focal_of(x, t, kAlpha, 1 - kAlpha, 2); },
     [](double x, double t) { return focal_slope(x, t, kAlpha, 1 - kAlpha, 2); },
     8,
     2},
    {"focal_without_alpha",
     {-6, 6},
     {0, 1},
     [](Value x, Value t) { return focal_loss(x, t, {.alpha = std::nullopt, .gamma = 0.5F}); },
     [](double x, double t) { return focal_of(x, t, 1, 1, 0.5); },
     [](double x, double t) { return focal_slope(x, t, 1, 1, 0.5); },
     8,
     0.5},
    {"hinge",
     {-3, 3},
     {-1, 1},
     [](Value x, Value t) { return hinge_loss(x, t, {.margin = 4}); },
     [](double x, double t) { return std::max(0.0, 4 - t * x); },
     [](double x, double t) { return t * x < 4 ? -t : 0.0; },
     16},
    {"absolute_error",
     {-3, 3},
     {-1, 1},
     [](Value x, Value t) { return absolute_error(x, t); },
     [](double x, double t) { return std::abs(x - t); },
     [](double x, double t) { return x > t ? 1.0 : (x < t ? -1.0 : 0.0); },
     1},
    {"squared_error",
     {-3, 3},
     {-1, 1},
     [](Value x, Value t) { return squared_error(x, t); },
     [](double x, double t) { return (x - t) * (x - t); },
     [](double x, double t) { return 2 * (x - t); },
     2},
    {"huber",
     {-3, 3},
     {-1, 1},
     [](Value x, Value t) { return huber_loss(x, t, {.delta = kDelta}); },
     [](double x, double t) {
       const double a = std::abs(x - t);
       return a <= kDelta ? a * a / 2 : kDelta * (a - kDelta / 2);
     },
     [](double x, double t) { return std::clamp(x - t, -kDelta, kDelta); },
     3},
    {"log_cosh",
     {-12, 12},
     {-1, 1},
     [](Value x, Value t) { return log_cosh_loss(x, t); },
     [](double x, double t) { return log_cosh_of(x - t); },
     [](double x, double t) { return std::tanh(x - t); },
     8},
};

CaseInput input_of(const Shape& shape, std::pair<double, double> range, bool has_batch) {
  CaseInput made = input(shape, range.first, range.second);
  made.has_batch = has_batch;
  return made;
}

std::vector<OpCase> element_cases() {
  struct Shapes {
    const char* name;
    Shape x, target;
  };
  const Shapes table[] = {{"scalar", {}, {}},
                          {"vector", {7}, {7}},
                          {"odd", {3, 4, 5}, {3, 4, 5}},
                          {"target_a_column", {6, 5}, {5}},
                          {"target_a_row", {6, 5}, {6, 1}},
                          {"one_target", {3, 2, 5}, {1, 1}},
                          {"empty", {0, 5}, {0, 5}},
                          {"many", {700, 33}, {700, 33}}};
  std::vector<OpCase> all;
  for (const ElementLoss& loss : kElementLosses) {
    for (const Shapes& shapes : table) {
      const bool has_batch = shapes.target.rank() == shapes.x.rank();
      OpCase made{.name = std::string(loss.name) + "_" + shapes.name,
                  .inputs = {input_of(shapes.x, loss.x, true), input_of(shapes.target, loss.target, has_batch)},
                  .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{loss.build(in[0], in[1])}; },
                  .reference =
                      [=](const std::vector<Doubles>& in) {
                        Doubles y = in[0];
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] = loss.reference(
                              y[i], in[1][source_index(static_cast<std::int64_t>(i), shapes.x, shapes.target)]);
                        }
                        return std::vector<Doubles>{y};
                      },
                  // The differences of two numbers of f32 are rounded, too.
                  .tolerance = {.relative = loss.promised(6), .absolute = 1},
                  .dynamic_batch = shapes.x.rank() > 0,
                  .same_bits_for_any_threads = true};
      all.push_back(made);
      // The results stay f32.
      if (shapes.name == std::string("odd")) all.push_back(in_bf16(made, {}, 8));
    }
  }
  return all;
}

class ElementLosses : public testing::TestWithParam<OpCase> {};
TEST_P(ElementLosses, MatchTheirFormulasWithTheirGradients) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, ElementLosses, testing::ValuesIn(element_cases()), case_name);

/// The loss and its derivative at each of `xs` for each of `targets`.
void expect_exact_pairs(const ElementLoss& loss, const std::vector<float>& xs, const std::vector<float>& targets) {
  for (const float t : targets) {
    const Found found =
        found_of([&](const auto& in) { return loss.build(in[0], in[1]); }, {numbers(xs), numbers({1}, {t})});
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const double wanted = loss.reference(xs[i], t), slope = loss.derivative(xs[i], t);
      const double relative = kF32Epsilon * loss.promised(std::abs(double{xs[i]}));
      // Between 0 and 1 the two classes draw against each other.
      const double drawn = t == 0 || t == 1 ? 0 : 4 * kWeight * kF32Epsilon;
      // Below 2^-126 are no normal numbers.
      EXPECT_NEAR(found.losses[i], wanted, relative * wanted + 1e-35) << loss.name << " of " << xs[i] << ", " << t;
      EXPECT_NEAR(found.gradients[0][i], slope, 2 * relative * std::abs(slope) + drawn + 1e-35)
          << loss.name << " of " << xs[i] << ", " << t;
    }
  }
}

TEST(ElementLosses, AreExactForLargeLogitsAndTargetsOfZeroAndOne) {
  std::vector<float> logits = {0, 1e-30F, 1e-3F, 1, 8, 20, 40, 80, 90, 1e3F, 1e4F, 1e9F, 1e30F};
  for (std::size_t i = logits.size(); i-- > 0;) logits.push_back(-logits[i]);
  for (std::size_t i = 0; i < 4; ++i) expect_exact_pairs(kElementLosses[i], logits, {0, 1, 0.5F, 0.125F});
}

TEST(ElementLosses, OfDifferencesAreExactHoweverSmallOrLargeTheyAre) {
  std::vector<float> differences = {1e-30F, 1e-18F, 1e-6F, 1e-3F, 0.1F, 0.6F, 0.75F, 1, 4, 8.9F, 9, 9.1F, 20, 1e4F};
  for (std::size_t i = differences.size(); i-- > 0;) differences.push_back(-differences[i]);
  for (const ElementLoss& loss : kElementLosses) {
    if (loss.target.first < 0 && loss.name != std::string("hinge")) expect_exact_pairs(loss, differences, {0});
  }
}

TEST(ElementLosses, HaveNoGradientAtZeroAndWhereTheMarginIsReached) {
  const auto gradient = [](const BuildLoss& build, std::vector<float> x, std::vector<float> t) {
    return found_of(build, {numbers(x), numbers(t)}).gradients[0];
  };
  const auto of = [](auto loss) { return [=](const auto& in) { return loss(in[0], in[1], {}, Where{}); }; };
  EXPECT_EQ(gradient([](const auto& in) { return absolute_error(in[0], in[1]); }, {2, -0.0F}, {2, 0}), (Doubles{0, 0}));
  EXPECT_EQ(gradient([](const auto& in) { return log_cosh_loss(in[0], in[1]); }, {2, 0}, {2, 0}), (Doubles{0, 0}));
  EXPECT_EQ(gradient(of(hinge_loss), {1, -1, 0.5F, -0.5F, 7}, {1, -1, 1, -1, 1}), (Doubles{0, 0, -1, 1, 0}));
  // The pieces of the Huber loss meet at delta.
  EXPECT_EQ(gradient(of(huber_loss), {1, -1, 1.5F, 0.5F}, {0, 0, 0, 0}), (Doubles{1, -1, 1, 0.5}));
}

TEST(ElementLosses, OfNanAreNan) {
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
  for (const ElementLoss& loss : kElementLosses) {
    const Found found = found_of([&](const auto& in) { return loss.build(in[0], in[1]); },
                                 {numbers({kNoNumber, 1}), numbers({1, kNoNumber})});
    for (const double value : found.losses) EXPECT_TRUE(std::isnan(value)) << loss.name;
  }
}

TEST(BinaryCrossEntropy, WeighsPositivesOfEachClassByAValue) {
  const auto build = [](const auto& in) {
    return binary_cross_entropy_with_logits(in[0], in[1], {.positive_weights = in[2]});
  };
  const std::vector<float> x = {1, -2, 0.5F, 3, -1, 2}, t = {1, 0, 0.5F, 0, 1, 1}, w = {1, 2, 4};
  const Found found = found_of(build, {numbers({2, 3}, x), numbers({2, 3}, t), numbers(w)}, {0, 2});
  Doubles losses, dx, dw(3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double weight = w[i % 3];
    losses.push_back(weight * t[i] * softplus_of(-x[i]) + (1 - t[i]) * softplus_of(x[i]));
    dx.push_back((1 - t[i]) * sigmoid_of(x[i]) - weight * t[i] * sigmoid_of(-x[i]));
    dw[i % 3] += t[i] * softplus_of(-x[i]);
  }
  expect_near(found.losses, losses, 16);
  expect_near(found.gradients[0], dx, 16);
  expect_near(found.gradients[1], dw, 16);
}

TEST(BinaryCrossEntropy, TakesMasksForTargets) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({2}, {-1, 2})), mask = less(x, constant(graph, 0.0F));
  for (const Value& loss : {binary_cross_entropy_with_logits(x, mask), focal_loss(x, mask)}) {
    EXPECT_EQ(loss.dtype(), Dtype::f32);
  }
  const auto found = run_kernels({binary_cross_entropy_with_logits(x, mask)}, {});
  EXPECT_TRUE(is_near(found[0], Doubles{softplus_of(1), softplus_of(2)}, {.relative = 4, .absolute = 0}));
}

TEST(ElementLosses, OfStoppedTargetsHaveNoGradientThere) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}), t = placeholder(graph, "t", {3});
  EXPECT_NO_THROW(gradients(reduce_sum(squared_error(x, t)), {t}));
  EXPECT_THROW(gradients(reduce_sum(squared_error(x, stop_gradient(t))), {t}), ArgumentError);
}

TEST(ElementLosses, RefuseWhatWouldCompareAllPairsAndAddNothing) {
  Graph graph;
  const Value rows = placeholder(graph, "rows", {kDynamic}), column = placeholder(graph, "column", {kDynamic, 1});
  const Value four = placeholder(graph, "four", {4}), three = placeholder(graph, "three", {3});
  const Value whole = placeholder(graph, "whole", {4}, Dtype::i32);
  const int before = graph.num_nodes();
  for (const ElementLoss& loss : kElementLosses) {
    const std::tuple<Value, Value, const char*> unlike[] = {{rows, column, ", {-1}) takes the last axis"},
                                                            {column, rows, ", -1) gives them a last axis"},
                                                            {four, three, "of the shape of the"},
                                                            {four, rows, "the same sizes"}};
    for (const auto& [first, second, advice] : unlike) {
      const auto compare = [&loss, x = first, t = second] { (void)loss.build(x, t); };
      EXPECT_THAT(compare, ThrowsMessage<ShapeError>(testing::AllOf(HasSubstr(first.name()), HasSubstr(second.name()),
                                                                    HasSubstr("broadcast to it"), HasSubstr(advice))));
    }
    EXPECT_THROW(loss.build(four, whole), ArgumentError);
    EXPECT_THAT([&] { (void)loss.build(whole, four); },
                ThrowsMessage<ArgumentError>(testing::AllOf(HasSubstr("'whole' are i32[4]"), HasSubstr("wanted f32"))));
  }
  EXPECT_EQ(graph.num_nodes(), before);
  EXPECT_TRUE(graph.scope_names().empty());
}

TEST(ElementLosses, RefuseOptionsThatMakeNoSense) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4}), t = placeholder(graph, "t", {4});
  const int before = graph.num_nodes();
  constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN(), kNoEnd = std::numeric_limits<float>::infinity();
  for (const float wrong : {-1.0F, kNoNumber, kNoEnd}) {
    EXPECT_THROW(binary_cross_entropy_with_logits(x, t, {.positive_weight = wrong}), ArgumentError);
    EXPECT_THROW(binary_cross_entropy_with_logits(x, t, {.label_smoothing = wrong}), ArgumentError);
    EXPECT_THROW(focal_loss(x, t, {.alpha = wrong}), ArgumentError);
    EXPECT_THROW(focal_loss(x, t, {.gamma = wrong}), ArgumentError);
    EXPECT_THROW(hinge_loss(x, t, {.margin = wrong}), ArgumentError);
    EXPECT_THROW(huber_loss(x, t, {.delta = wrong}), ArgumentError);
  }
  EXPECT_THROW(huber_loss(x, t, {.delta = 0}), ArgumentError);
  EXPECT_THROW(focal_loss(x, t, {.alpha = 1.5F}), ArgumentError);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, t, {.label_smoothing = 1.5F}), ArgumentError);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, t, {.positive_weight = 2, .positive_weights = x}), ArgumentError);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, t, {.positive_weights = placeholder(graph, "w", {3})}), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before + 1);
}

}  // namespace
}  // namespace sectionflow::loss_case

#include "graph/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "autodiff/gradients.h"
#include "graph/nodes/softmax.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// ln softmax of each row of `length`.
Doubles log_softmax_of(const Doubles& x, std::size_t length) {
  Doubles y = x;
  for (std::size_t row = 0; row < x.size(); row += length) {
    const double shift = *std::max_element(x.begin() + row, x.begin() + row + length);
    double sum = 0;
    for (std::size_t c = 0; c < length; ++c) sum += std::exp(x[row + c] - shift);
    for (std::size_t c = 0; c < length; ++c) y[row + c] = x[row + c] - shift - std::log(sum);
  }
  return y;
}

std::vector<OpCase> softmax_cases() {
  struct Case {
    const char* name;
    Shape shape;
    double range;
  };
  const Case table[] = {{"vector", {7}, 3},           {"one", {5, 1}, 3},
                        {"odd", {3, 4, 17}, 3},       {"wide", {9, 33}, 80},
                        {"none", {0, 5}, 1},          {"of_none", {3, 0}, 1},
                        {"many_rows", {4001, 3}, 3},  {"vocabulary", {3, 5027}, 3},
                        {"heads", {2, 3, 37, 64}, 6}, {"several_warps", {1100, 33}, 6}};
  std::vector<OpCase> all;
  for (const Case& line : table) {
    const auto length = static_cast<std::size_t>(line.shape[-1]);
    for (bool is_log : {false, true}) {
      all.push_back({.name = std::string(is_log ? "log_" : "") + line.name,
                     .inputs = {input(line.shape, -line.range, line.range)},
                     .build =
                         [=](Graph&, const std::vector<Value>& in) {
                           return std::vector{is_log ? log_softmax(in[0]) : softmax(in[0])};
                         },
                     .reference =
                         [=](const std::vector<Doubles>& in) {
                           Doubles y = log_softmax_of(in[0], length);
                           if (!is_log) {
                             for (double& value : y) value = std::exp(value);
                           }
                           return std::vector<Doubles>{y};
                         },
                     // x - max is rounded, and its error is one of the exponential's argument.
                     .tolerance = {.relative = 4 + line.range, .absolute = is_log ? 2.0 : 1e-30},
                     .dynamic_batch = line.shape.rank() > 1,
                     .same_bits_for_any_threads = true});
      if (line.name == std::string_view("odd")) all.push_back(in_bf16(all.back(), {}, is_log ? 8 : 2));
    }
  }
  return all;
}

class Softmax : public testing::TestWithParam<OpCase> {};
TEST_P(Softmax, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, Softmax, testing::ValuesIn(softmax_cases()), case_name);

TEST(SoftmaxOps, TakeImpossibleElementsAndPassNanOn) {
  Graph graph;
  const Value x = constant(graph, HostTensor::of<float>({4, 2}, {-INFINITY, 3, NAN, 1, -INFINITY, -INFINITY, 1e4F, 0}));
  const auto results = run_kernels({softmax(x), log_softmax(x)}, {});
  EXPECT_TRUE(is_near(results[0], Doubles{0, 1, NAN, NAN, NAN, NAN, 1, 0}, {.relative = 0, .absolute = 0}));
  EXPECT_TRUE(is_near(results[1], Doubles{-INFINITY, 0, NAN, NAN, NAN, NAN, 0, -1e4}, {.relative = 0, .absolute = 0}));
}

TEST(SoftmaxOps, RefuseScalarsAndOtherDtypes) {
  Graph graph;
  EXPECT_THROW(softmax(placeholder(graph, "x", {})), ShapeError);
  EXPECT_THROW(log_softmax(placeholder(graph, "x", {})), ShapeError);
  EXPECT_THROW(softmax(placeholder(graph, "x", {2}, Dtype::f64)), ArgumentError);
  EXPECT_THROW(log_softmax(placeholder(graph, "x", {2}, Dtype::i32)), ArgumentError);
}

struct Variant {
  double smoothing = 0;
  bool has_weights = false;
};

/// Loss [N] and statistics [N, 2] of logits [N, C] under label probabilities [N, C] and class weights [C].
std::vector<Doubles> loss_and_statistics(const Doubles& logits, const Doubles& labels, const Doubles& weights,
                                         double smoothing) {
  const std::size_t num_classes = weights.size();
  Doubles loss, statistics;
  for (std::size_t row = 0; row < logits.size(); row += num_classes) {
    const double largest = *std::max_element(logits.begin() + row, logits.begin() + row + num_classes);
    double sum = 0, row_loss = 0;
    for (std::size_t c = 0; c < num_classes; ++c) sum += std::exp(logits[row + c] - largest);
    for (std::size_t c = 0; c < num_classes; ++c) {
      const double q = (1 - smoothing) * labels[row + c] + smoothing / static_cast<double>(num_classes);
      row_loss -= weights[c] * q * (logits[row + c] - largest - std::log(sum));
    }
    loss.push_back(row_loss);
    statistics.push_back(largest);
    statistics.push_back(std::log(sum));
  }
  return {loss, statistics};
}

/// A case of logits and labels, with class weights as a third input where the variant has them.
OpCase entropy_case(std::string name, CaseInput logits, CaseInput labels, Variant variant) {
  const std::int64_t num_classes = logits.type.shape[1];
  const bool is_class = labels.type.shape.rank() == 1;
  std::vector<CaseInput> inputs = {std::move(logits), std::move(labels)};
  if (variant.has_weights) {
    inputs.push_back(parameter({num_classes}, 0, 2));
    inputs.back().differentiable = false;
  }
  return {.name = std::move(name),
          .inputs = std::move(inputs),
          .build =
              [variant](Graph&, const std::vector<Value>& in) {
                SoftmaxCrossEntropyOptions options{.label_smoothing = static_cast<float>(variant.smoothing)};
                if (variant.has_weights) options.class_weights = in[2];
                const Value loss = softmax_cross_entropy(in[0], in[1], options);
                return std::vector{loss, loss.node().output(1)};
              },
          .reference =
              [=](const std::vector<Doubles>& in) {
                const auto classes = static_cast<std::size_t>(num_classes);
                Doubles labels = in[1];
                if (is_class) {
                  labels.assign(in[0].size(), 0.0);
                  for (std::size_t n = 0; n < in[1].size(); ++n) {
                    labels[n * classes + static_cast<std::size_t>(in[1][n])] = 1;
                  }
                }
                return loss_and_statistics(in[0], labels, variant.has_weights ? in[2] : Doubles(classes, 1.0),
                                           static_cast<float>(variant.smoothing));
              },
          .tolerance = {.relative = 6, .absolute = 1},
          .same_bits_for_any_threads = true};
}

OpCase class_case(std::string name, std::int64_t num_rows, std::int64_t num_classes, Dtype dtype, double range = 2,
                  Variant variant = {}) {
  const CaseInput labels{.type = {dtype, {num_rows}}, .low = 0, .high = static_cast<double>(num_classes - 1)};
  OpCase op_case = entropy_case(std::move(name), input({num_rows, num_classes}, -range, range), labels, variant);
  op_case.tolerance = {.relative = 4 + range, .absolute = 1};
  op_case.dynamic_batch = num_rows != 1;
  return op_case;
}

OpCase probability_case(std::string name, std::int64_t num_rows, std::int64_t num_classes, Variant variant = {}) {
  // Rows that sum to 1, a class of probability 0 among them.
  CaseInput labels = input({num_rows, num_classes});
  labels.differentiable = false;
  for (std::int64_t n = 0; n < num_rows; ++n) {
    const double total = static_cast<double>(num_classes * (num_classes - 1)) / 2;
    for (std::int64_t c = 0; c < num_classes; ++c)
      labels.values.push_back(static_cast<double>((c + n) % num_classes) / total);
  }
  return entropy_case(std::move(name), input({num_rows, num_classes}, -3, 3), labels, variant);
}

class SoftmaxCrossEntropy : public testing::TestWithParam<OpCase> {};
TEST_P(SoftmaxCrossEntropy, MatchesTheReferenceWithItsGradient) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Cases, SoftmaxCrossEntropy,
    testing::Values(class_case("ten_classes_i32", 33, 10, Dtype::i32),
                    class_case("ten_classes_i64", 33, 10, Dtype::i64), class_case("one_row", 1, 7, Dtype::i32),
                    class_case("one_class", 4, 1, Dtype::i32), class_case("two_classes", 9, 2, Dtype::i64),
                    class_case("thousand_classes", 61, 1000, Dtype::i32),
                    class_case("wide_logits", 20, 12, Dtype::i32, 60), class_case("no_rows", 0, 10, Dtype::i32),
                    class_case("many_rows", 5003, 10, Dtype::i64), probability_case("probabilities", 17, 10),
                    probability_case("two_probabilities", 5, 2), probability_case("many_probabilities", 301, 101),
                    class_case("vocabulary", 3, 5027, Dtype::i32),
                    class_case("smoothed", 33, 10, Dtype::i32, 2, {.smoothing = 0.1}),
                    class_case("smoothed_alone", 9, 10, Dtype::i32, 2, {.smoothing = 1}),
                    class_case("weighted", 33, 10, Dtype::i64, 2, {.has_weights = true}),
                    class_case("smoothed_and_weighted", 33, 10, Dtype::i32, 2, {.smoothing = 0.2, .has_weights = true}),
                    class_case("large_vocabulary", 5, 3019, Dtype::i64, 3, {.smoothing = 0.1, .has_weights = true}),
                    probability_case("smoothed_probabilities", 17, 10, {.smoothing = 0.1}),
                    probability_case("weighted_probabilities", 17, 10, {.has_weights = true}),
                    probability_case("smoothed_and_weighted_probabilities", 61, 37,
                                     {.smoothing = 0.3, .has_weights = true})),
    case_name);

// Logits of bf16: the same numbers as of f32, with a gradient that is rounded.
INSTANTIATE_TEST_SUITE_P(
    Bf16, SoftmaxCrossEntropy,
    testing::Values(in_bf16(class_case("ten_classes", 33, 10, Dtype::i32), {0}),
                    in_bf16(class_case("thousand_classes", 61, 1000, Dtype::i64), {0}),
                    in_bf16(class_case("vocabulary", 3, 5027, Dtype::i32), {0}),
                    in_bf16(class_case("smoothed_and_weighted", 33, 10, Dtype::i32, 2,
                                       {.smoothing = 0.2, .has_weights = true}),
                            {0}),
                    in_bf16(class_case("no_rows", 0, 10, Dtype::i32), {0}),
                    in_bf16(probability_case("weighted_probabilities", 17, 10, {.has_weights = true}), {0})),
    case_name);

TEST(SoftmaxCrossEntropyExactly, SurvivesLogitsWhoseExponentialsDoNot) {
  Graph graph;
  const Value logits = constant(graph, HostTensor::of<float>({2, 3}, {1000, 999, -1000, -5000, -5000, -5000}));
  const Value labels = constant(graph, HostTensor::of<std::int32_t>({2}, {1, 2}));
  const HostTensor loss = std::move(run_kernels({softmax_cross_entropy(logits, labels)}, {})[0]);
  EXPECT_TRUE(is_near(loss, Doubles{std::log(1 + std::exp(1.0)), std::log(3.0)}, {}));
}

template <class Label>
void expect_nan_rows(const std::vector<Label>& classes) {
  Graph graph;
  const auto num_rows = static_cast<std::int64_t>(classes.size());
  const Value logits = placeholder(graph, "logits", {num_rows, 3});
  const Value labels = constant(graph, HostTensor::of<Label>({num_rows}, classes));
  const Value loss = softmax_cross_entropy(logits, labels);
  Feeds feeds;
  feeds.emplace(logits, HostTensor(Dtype::f32, {num_rows, 3}));
  const auto results = run_kernels({loss, gradients(reduce_sum(loss), {logits})[0]}, feeds);
  for (std::size_t n = 0; n < classes.size(); ++n) {
    const bool is_bad = classes[n] < 0 || classes[n] > 2;
    EXPECT_EQ(std::isnan(results[0].values<float>()[n]), is_bad) << "class " << classes[n];
    for (std::size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(std::isnan(results[1].values<float>()[n * 3 + c]), is_bad) << "class " << classes[n];
    }
  }
}

TEST(SoftmaxCrossEntropyExactly, AClassOutOfRangeGivesNaNInItsRowAlone) {
  expect_nan_rows<std::int32_t>({0, 3, 2, -1, 1, INT32_MIN, INT32_MAX});
  expect_nan_rows<std::int64_t>({0, 3, 2, -1, 1, std::int64_t{1} << 32, INT64_MIN, INT64_MAX});
}

TEST(SoftmaxCrossEntropyExactly, ANaNOrInfiniteLogitGivesANaNLoss) {
  Graph graph;
  const Value logits = constant(graph, HostTensor::of<float>({3, 2}, {NAN, 1, 1, NAN, INFINITY, 0}));
  const Value labels = constant(graph, HostTensor::of<std::int32_t>({3}, {0, 0, 1}));
  const HostTensor loss = std::move(run_kernels({softmax_cross_entropy(logits, labels)}, {})[0]);
  for (float value : loss.values<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST(SoftmaxCrossEntropyExactly, TheGradientOfNoRowsIsEmpty) {
  Graph graph;
  const Value logits = fill(graph, {0, 3}, 1), classes = fill(graph, {0}, 0, Dtype::i32);
  const Value dloss = fill(graph, {0}, 1), statistics = fill(graph, {0, 2}, 0);
  const auto results = run_kernels({softmax_cross_entropy_grad(dloss, statistics, logits, classes),
                                    softmax_cross_entropy_grad(dloss, statistics, logits, logits)},
                                   {});
  for (const HostTensor& dx : results) EXPECT_EQ(dx.shape(), (Shape{0, 3}));
}

TEST(SoftmaxCrossEntropyExactly, AnImpossibleClassOfProbabilityZeroCostsNothing) {
  Graph graph;
  const Value logits = constant(graph, HostTensor::of<float>({1, 3}, {0, -INFINITY, 0}));
  const Value labels = constant(graph, HostTensor::of<float>({1, 3}, {0.5F, 0, 0.5F}));
  const HostTensor loss = std::move(run_kernels({softmax_cross_entropy(logits, labels)}, {})[0]);
  EXPECT_TRUE(is_near(loss, Doubles{std::log(2.0)}, {}));
}

TEST(SoftmaxCrossEntropyExactly, EqualsPyTorchWithSmoothingAndWeights) {
  // torch.nn.functional.cross_entropy(x, y, weight=w, label_smoothing=0.1, reduction='none'), worked out by its
  // formula: 0.9 w_y l_y + 0.1 / 3 sum_c w_c l_c with l = -log_softmax(x).
  Graph graph;
  const Value logits = constant(graph, HostTensor::of<float>({2, 3}, {1, 2, 3, 0, 0, 0}));
  const Value labels = constant(graph, HostTensor::of<std::int32_t>({2}, {0, 2}));
  const Value weights = constant(graph, HostTensor::of<float>({3}, {0.5F, 1, 2}));
  const HostTensor loss = std::move(
      run_kernels({softmax_cross_entropy(logits, labels, {.label_smoothing = 0.1F, .class_weights = weights})}, {})[0]);
  const double l0 = 2.4076059644443806, l1 = l0 - 1, l2 = l0 - 2;
  const double first = 0.9 * 0.5 * l0 + 0.1 / 3 * (0.5 * l0 + l1 + 2 * l2);
  const double second = std::log(3.0) * (0.9 * 2 + 0.1 / 3 * 3.5);
  EXPECT_TRUE(is_near(loss, Doubles{first, second}, {}));
}

TEST(SoftmaxCrossEntropyExactly, AClassThatDoesNotCountMayBeImpossible) {
  Graph graph;
  const Value logits = constant(graph, HostTensor::of<float>({1, 3}, {0, -INFINITY, 0}));
  const Value labels = constant(graph, HostTensor::of<std::int32_t>({1}, {0}));
  const Value weights = constant(graph, HostTensor::of<float>({3}, {1, 0, 1}));
  const HostTensor loss = std::move(
      run_kernels({softmax_cross_entropy(logits, labels, {.label_smoothing = 0.3F, .class_weights = weights})}, {})[0]);
  EXPECT_TRUE(is_near(loss, Doubles{0.9 * std::log(2.0)}, {}));
}

TEST(SoftmaxCrossEntropyExactly, RefusesOptionsThatMakeNoSense) {
  Graph graph;
  const Value logits = placeholder(graph, "logits", {4, 3}), labels = placeholder(graph, "labels", {4}, Dtype::i32);
  for (float smoothing : {-0.1F, 1.1F, NAN}) {
    EXPECT_THROW(softmax_cross_entropy(logits, labels, {.label_smoothing = smoothing}), ArgumentError);
  }
  for (const Value weights : {placeholder(graph, "w", {4}), placeholder(graph, "w", {3}, Dtype::f64),
                              placeholder(graph, "w", {3, 1}), placeholder(graph, "w", {kDynamic})}) {
    EXPECT_THROW(softmax_cross_entropy(logits, labels, {.class_weights = weights}), ShapeError);
  }
}

TEST(SoftmaxCrossEntropyExactly, TheFeedMayDecideTheRowsOfLogitsOrLabelsAlone) {
  for (bool open_logits : {true, false}) {
    for (Dtype dtype : {Dtype::i32, Dtype::f32}) {
      Graph graph;
      const std::int64_t logit_rows = open_logits ? kDynamic : 4, label_rows = open_logits ? 4 : kDynamic;
      const Value logits = placeholder(graph, "logits", {logit_rows, 3});
      const bool classes = dtype == Dtype::i32;
      const Value labels = placeholder(graph, "labels", classes ? Shape{label_rows} : Shape{label_rows, 3}, dtype);
      const Value loss = softmax_cross_entropy(logits, labels);
      const auto feeds_of = [&](std::int64_t rows) {
        Feeds feeds;
        feeds.emplace(logits, HostTensor(Dtype::f32, {open_logits ? rows : 4, 3}));
        const std::int64_t count = open_logits ? 4 : rows;
        feeds.emplace(labels, HostTensor(dtype, classes ? Shape{count} : Shape{count, 3}));
        return feeds;
      };
      EXPECT_EQ(run_kernels({loss}, feeds_of(4))[0].shape(), Shape{4});
      EXPECT_THROW(run_kernels({loss}, feeds_of(5)), ShapeError);
    }
  }
}

TEST(SoftmaxCrossEntropyExactly, WeightsThatDependOnAVariableAreRefused) {
  Graph graph;
  const Value weights = variable("w", fill(graph, {3}, 1));
  const Value loss = softmax_cross_entropy(placeholder(graph, "logits", {4, 3}),
                                           placeholder(graph, "labels", {4}, Dtype::i32), {.class_weights = weights});
  EXPECT_THROW(gradients(reduce_sum(loss), {weights}), ArgumentError);
}

}  // namespace

}  // namespace sectionflow

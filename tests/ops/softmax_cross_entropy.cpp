#include "graph/ops/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "autodiff/gradients.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Loss [N] and probabilities [N, C] of logits [N, C] under label probabilities [N, C].
std::vector<Doubles> loss_and_softmax(const Doubles& logits, const Doubles& labels, std::size_t num_classes) {
  Doubles loss, probabilities(logits.size());
  for (std::size_t row = 0; row < logits.size(); row += num_classes) {
    double sum = 0, row_loss = 0;
    for (std::size_t c = 0; c < num_classes; ++c) sum += std::exp(logits[row + c]);
    for (std::size_t c = 0; c < num_classes; ++c) {
      probabilities[row + c] = std::exp(logits[row + c]) / sum;
      row_loss -= labels[row + c] * (logits[row + c] - std::log(sum));
    }
    loss.push_back(row_loss);
  }
  return {loss, probabilities};
}

std::vector<Value> build(Graph&, const std::vector<Value>& in) {
  const Value loss = softmax_cross_entropy(in[0], in[1]);
  return {loss, loss.node().output(1)};
}

OpCase class_case(std::string name, std::int64_t num_rows, std::int64_t num_classes, Dtype dtype, double range = 2) {
  const CaseInput labels{.type = {dtype, {num_rows}}, .low = 0, .high = static_cast<double>(num_classes - 1)};
  const auto reference = [num_classes](const std::vector<Doubles>& in) {
    const auto classes = static_cast<std::size_t>(num_classes);
    Doubles one_hot(in[0].size(), 0.0);
    for (std::size_t n = 0; n < in[1].size(); ++n) one_hot[n * classes + static_cast<std::size_t>(in[1][n])] = 1;
    return loss_and_softmax(in[0], one_hot, classes);
  };
  return {.name = std::move(name),
          .inputs = {input({num_rows, num_classes}, -range, range), labels},
          .build = build,
          .reference = reference,
          .tolerance = {.relative = 4 + range, .absolute = 1},
          .dynamic_batch = num_rows != 1,
          .same_bits_for_any_threads = true};
}

OpCase probability_case(std::string name, std::int64_t num_rows, std::int64_t num_classes) {
  // Rows that sum to 1, a class of probability 0 among them.
  CaseInput labels = input({num_rows, num_classes});
  labels.differentiable = false;
  for (std::int64_t n = 0; n < num_rows; ++n) {
    const double total = static_cast<double>(num_classes * (num_classes - 1)) / 2;
    for (std::int64_t c = 0; c < num_classes; ++c)
      labels.values.push_back(static_cast<double>((c + n) % num_classes) / total);
  }
  return {.name = std::move(name),
          .inputs = {input({num_rows, num_classes}, -3, 3), labels},
          .build = build,
          .reference =
              [num_classes](const std::vector<Doubles>& in) {
                return loss_and_softmax(in[0], in[1], static_cast<std::size_t>(num_classes));
              },
          .tolerance = {.relative = 6, .absolute = 1},
          .same_bits_for_any_threads = true};
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
                    probability_case("two_probabilities", 5, 2), probability_case("many_probabilities", 301, 101)),
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
  const Value probabilities = fill(graph, {0, 3}, 1), classes = fill(graph, {0}, 0, Dtype::i32);
  const Value dloss = fill(graph, {0}, 1);
  const auto results = run_kernels({softmax_cross_entropy_grad(probabilities, classes, dloss),
                                    softmax_cross_entropy_grad(probabilities, probabilities, dloss)},
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

}  // namespace
}  // namespace sectionflow

#include "graph/ops/dropout.h"

#include <cmath>

#include "autodiff/gradients.h"
#include "base/random.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/graph/description.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

/// Element by element, at the address that the kernel runner uses for the first random node.
Doubles dropped(const Doubles& x, double rate) {
  Doubles y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double u = random_words({}, i / 4)[i % 4] * 0x1p-32;
    y[i] = u < rate ? 0 : x[i] / (1 - rate);
  }
  return y;
}

OpCase dropout_case(const std::string& name, Shape shape, float rate, bool training) {
  return {
      .name = name + (training ? "_training" : "_evaluation"),
      .inputs = {input(std::move(shape)), boolean_input(training)},
      .build = [=](Graph&, const std::vector<Value>& in) { return std::vector{dropout(in[0], in[1], {.rate = rate})}; },
      .reference =
          [=](const std::vector<Doubles>& in) {
            return std::vector<Doubles>{training ? dropped(in[0], static_cast<double>(rate)) : in[0]};
          },
      .tolerance = {.relative = 2, .absolute = 0},
      .dynamic_batch = true,
      .same_bits_for_any_threads = true};
}

std::vector<OpCase> dropout_cases() {
  std::vector<OpCase> all;
  for (bool training : {true, false}) {
    all.push_back(dropout_case("odd", {3, 7, 5}, 0.5F, training));
    all.push_back(dropout_case("three", {3}, 0.5F, training));
    all.push_back(dropout_case("few_dropped", {30, 11}, 0.1F, training));
    all.push_back(dropout_case("nearly_all_dropped", {100, 101}, 0.9999999F, training));
    all.push_back(dropout_case("none_dropped", {5, 5}, 0, training));
    all.push_back(dropout_case("large", {301, 1003}, 0.25F, training));
    all.push_back(dropout_case("empty", {0, 4}, 0.5F, training));
  }
  return all;
}

class DropoutCases : public testing::TestWithParam<OpCase> {};
TEST_P(DropoutCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, DropoutCases, testing::ValuesIn(dropout_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, DropoutCases,
                         testing::Values(in_bf16(dropout_case("odd", {3, 7, 5}, 0.5F, true)),
                                         in_bf16(dropout_case("odd", {3, 7, 5}, 0.5F, false))),
                         case_name);

/// Dropout of ones, after another random node, and its gradient for dy = 1.
struct OfOnes {
  Graph graph;
  Value other = random_normal(graph, {4});
  Value x = placeholder(graph, "x", {100, 1000});
  Value y;
  Value dx;

  explicit OfOnes(float rate) {
    y = dropout(x, constant(graph, HostTensor::scalar(true)), {.rate = rate});
    dx = gradients(reduce_sum(y), {x})[0];
  }
  std::vector<HostTensor> run(const RandomAddress& address) {
    HostTensor ones(x.type());
    for (float& value : ones.values<float>()) value = 1;
    Feeds feeds;
    feeds.emplace(x, std::move(ones));
    return run_kernels({y, dx}, feeds, {.random = address});
  }
};

TEST(Dropout, DropsTheShareOfItsRateAndKeepsTheMean) {
  for (float rate : {0.1F, 0.5F, 0.8F}) {
    const auto results = OfOnes(rate).run({.seed = 3, .node = 0, .step = 2});
    double sum = 0;
    for (float value : results[0].values<float>()) {
      ASSERT_TRUE(value == 0 || std::abs(value * (1 - rate) - 1) < 1e-6F) << value;
      sum += value;
    }
    // Five standard errors of the mean of 100,000.
    EXPECT_NEAR(sum / 100'000, 1, 5 * std::sqrt(rate / (1 - rate) / 100'000)) << rate;
  }
}

TEST(Dropout, TheGradientDrawsTheSameMaskForEverySeedAndCycle) {
  OfOnes net(0.3F);
  const auto first = net.run({.seed = 3, .node = 0, .step = 2});
  for (const RandomAddress& address : {RandomAddress{3, 0, 2}, {4, 0, 2}, {3, 0, 3}}) {
    const auto results = net.run(address);
    EXPECT_TRUE(same_bits(results[0], results[1]));
    EXPECT_EQ(same_bits(results[0], first[0]), address.seed == 3 && address.step == 2);
  }
}

TEST(Dropout, TwoOfOneGraphDropOtherElements) {
  Graph graph;
  const Value x = fill(graph, {64, 64}, 1), is_training = constant(graph, HostTensor::scalar(true));
  const auto results = run_kernels({dropout(x, is_training), dropout(x, is_training)}, {});
  EXPECT_FALSE(bitwise_equal(results[0], results[1]));
}

TEST(Dropout, OfRateZeroIsTheInput) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}), is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  EXPECT_EQ(dropout(x, is_training, {.rate = 0}), x);
}

TEST(Dropout, RefusesOtherRatesTypesAndBooleans) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3}), is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value whole = placeholder(graph, "whole", {3}, Dtype::i32),
              many = placeholder(graph, "many", {2}, Dtype::boolean);
  const Value computed = equal(x, x);
  const int num_nodes = graph.num_nodes();
  for (float rate : {-0.1F, 1.0F, 1.5F, std::nanf("")}) {
    const std::string text = error_text<ArgumentError>([&] { dropout(x, is_training, {.rate = rate}); });
    EXPECT_TRUE(contains(text, "wanted 0 to 1, without 1")) << text;
  }
  for (float rate : {0.0F, 0.5F}) {
    EXPECT_TRUE(contains(error_text<ArgumentError>([&] { dropout(whole, is_training, {.rate = rate}); }), "i32[3]"));
    EXPECT_TRUE(contains(error_text<ArgumentError>([&] { dropout(x, many, {.rate = rate}); }), "wanted bool[]"));
    EXPECT_TRUE(
        contains(error_text<ArgumentError>([&] { dropout(x, computed, {.rate = rate}); }), "computed by equal"));
  }
  EXPECT_EQ(graph.num_nodes(), num_nodes);
}

}  // namespace
}  // namespace sectionflow::testing_support

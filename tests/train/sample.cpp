#include "train/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::int32_t class_of(const std::vector<float>& logits, const SampleOptions& options, std::uint64_t draw) {
  const auto count = static_cast<std::int64_t>(logits.size());
  return sample(HostTensor::of<float>({count}, logits), options, draw).item<std::int32_t>();
}

/// How often each class comes of so many draws.
std::vector<int> counts_of(const std::vector<float>& logits, const SampleOptions& options, int draws) {
  std::vector<int> counts(logits.size());
  for (int draw = 0; draw < draws; ++draw) {
    ++counts[static_cast<std::size_t>(class_of(logits, options, static_cast<std::uint64_t>(draw)))];
  }
  return counts;
}

/// Within five standard deviations of a binomial distribution, and never where the probability is 0.
void expect_probabilities(const std::vector<float>& logits, const SampleOptions& options,
                          const std::vector<double>& wanted) {
  constexpr int kDraws = 20000;
  const std::vector<int> counts = counts_of(logits, options, kDraws);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double p = wanted[i];
    EXPECT_NEAR(counts[i], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p))) << "class " << i;
  }
}

std::vector<float> logs_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + 3);
  return logits;
}

TEST(Sample, DrawsByTheSoftmaxOfTheLogits) {
  expect_probabilities(logs_of({0.1, 0.4, 0.3, 0.2}), {}, {0.1, 0.4, 0.3, 0.2});
  expect_probabilities(logs_of({0.1, 0.4, 0.3, 0.2}), {.seed = 7}, {0.1, 0.4, 0.3, 0.2});
}

TEST(Sample, DividesLogitsByTheTemperature) {
  // Probabilities to the power of 1 / T.
  expect_probabilities(logs_of({0.2, 0.4, 0.4}), {.temperature = 0.5}, {0.04 / 0.36, 0.16 / 0.36, 0.16 / 0.36});
  expect_probabilities(
      logs_of({0.1, 0.9}), {.temperature = 2},
      {std::sqrt(0.1) / (std::sqrt(0.1) + std::sqrt(0.9)), std::sqrt(0.9) / (std::sqrt(0.1) + std::sqrt(0.9))});
}

TEST(Sample, TakesTheFirstOfTheLargestWithoutTemperature) {
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    EXPECT_EQ(class_of({1, 5, 2, 5}, {.temperature = 0}, draw), 1);
    EXPECT_EQ(class_of({-kInfinity, -3e38F, -kInfinity}, {.temperature = 0}, draw), 1);
    EXPECT_EQ(class_of({1, 2, 3}, {.temperature = 1e-300}, draw), 2);
  }
}

TEST(Sample, DrawsOfTheLargestAlone) {
  const auto logits = logs_of({0.1, 0.4, 0.3, 0.2});
  expect_probabilities(logits, {.top_k = 2}, {0, 4.0 / 7, 3.0 / 7, 0});
  expect_probabilities(logits, {.top_k = 100}, {0.1, 0.4, 0.3, 0.2});
  expect_probabilities({2, 2, 2, 2}, {.top_k = 2}, {0.5, 0.5, 0, 0});
}

TEST(Sample, DrawsOfAsFewAsHaveTheProbability) {
  const auto logits = logs_of({0.1, 0.4, 0.3, 0.2});
  expect_probabilities(logits, {.top_p = 0.3}, {0, 1, 0, 0});
  expect_probabilities(logits, {.top_p = 0.65}, {0, 4.0 / 7, 3.0 / 7, 0});
  expect_probabilities(logits, {.top_p = 0.75}, {0, 4.0 / 9, 3.0 / 9, 2.0 / 9});
  expect_probabilities(logits, {.top_p = 1e-9}, {0, 1, 0, 0});
}

TEST(Sample, RestrictsWhatTheRestrictionBeforeLeaves) {
  // Of 4/9, 3/9, 2/9 the first two have 7/9.
  expect_probabilities(logs_of({0.1, 0.4, 0.3, 0.2}), {.top_k = 3, .top_p = 0.7}, {0, 4.0 / 7, 3.0 / 7, 0});
  // At the temperature 0.5 the largest has 0.16 / 0.3.
  expect_probabilities(logs_of({0.1, 0.4, 0.3, 0.2}), {.temperature = 0.5, .top_p = 0.5}, {0, 1, 0, 0});
}

TEST(Sample, NeverDrawsWhatIsImpossible) {
  expect_probabilities({-kInfinity, 0, -kInfinity, 0}, {}, {0, 0.5, 0, 0.5});
  expect_probabilities({-kInfinity, 0, -kInfinity, 0}, {.top_k = 3, .top_p = 0.99}, {0, 0.5, 0, 0.5});
  expect_probabilities({3e38F, kInfinity, 5, kInfinity}, {}, {0, 0.5, 0, 0.5});
  expect_probabilities({-3e38F, 3e38F}, {}, {0, 1});
}

TEST(Sample, IsAFunctionOfRowNumberAndDraw) {
  HostTensor logits(Dtype::f32, {2, 300, 50});
  const HostTensor first = sample(logits, {.seed = 3}, 11), again = sample(logits, {.seed = 3}, 11);
  EXPECT_EQ(first.type(), (TensorType{Dtype::i32, {2, 300}}));
  EXPECT_TRUE(bitwise_equal(first, again));
  // Of equal logits: rows differ from each other, and so do draws and seeds.
  const auto of_first = first.values<std::int32_t>();
  EXPECT_EQ(std::set<std::int32_t>(of_first.begin(), of_first.end()).size(), 50U);
  EXPECT_FALSE(bitwise_equal(first, sample(logits, {.seed = 3}, 12)));
  EXPECT_FALSE(bitwise_equal(first, sample(logits, {.seed = 4}, 11)));
  EXPECT_FALSE(bitwise_equal(first, sample(logits, {.seed = 3}, 11 + (std::uint64_t{1} << 32))));
}

TEST(Sample, TakesBf16AndEmptyBatches) {
  HostTensor logits(Dtype::bf16, {3, 4});
  for (std::size_t row = 0; row < 3; ++row) logits.values<BFloat16>()[4 * row + row + 1] = BFloat16(200.0F);
  const HostTensor drawn = sample(logits, {}, 0);
  for (std::size_t row = 0; row < 3; ++row) {
    EXPECT_EQ(drawn.values<std::int32_t>()[row], static_cast<std::int32_t>(row + 1));
  }
  EXPECT_EQ(sample(HostTensor(Dtype::f32, {0, 7}), {}, 0).shape(), (Shape{0}));
}

/// What sample says of such logits and options.
std::string refusal(const HostTensor& logits, const SampleOptions& options) {
  try {
    (void)sample(logits, options, 0);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

TEST(Sample, RefusesWhatIsNoDistributionAndNamesIt) {
  const HostTensor logits = HostTensor::of<float>({2, 2}, {0, 1, 2, 3});
  const std::map<std::string, SampleOptions> wrong = {{"temperature is -1", {.temperature = -1}},
                                                      {"temperature is nan", {.temperature = NAN}},
                                                      {"temperature is inf", {.temperature = INFINITY}},
                                                      {"top_k is -1", {.top_k = -1}},
                                                      {"top_p is 0;", {.top_p = 0}},
                                                      {"top_p is 1.5", {.top_p = 1.5}},
                                                      {"top_p is nan", {.top_p = NAN}}};
  for (const auto& [text, options] : wrong) {
    EXPECT_NE(refusal(logits, options).find(text), std::string::npos) << refusal(logits, options);
  }
  const HostTensor nan = HostTensor::of<float>({2, 2}, {0, 1, NAN, 3});
  EXPECT_NE(refusal(nan, {}).find("row 1 of the logits has a NaN"), std::string::npos);
  EXPECT_NE(refusal(nan, {.temperature = 0}).find("row 1 of the logits has a NaN"), std::string::npos);
  const HostTensor none = HostTensor::of<float>({1, 2}, {-kInfinity, -kInfinity});
  EXPECT_NE(refusal(none, {}).find("row 0 of the logits is -infinity throughout"), std::string::npos);
  EXPECT_NE(refusal(HostTensor(Dtype::i32, {2, 2}), {}).find("wanted f32 or bf16"), std::string::npos);
  EXPECT_NE(refusal(HostTensor(Dtype::f32, {}), {}).find("wanted [..., C]"), std::string::npos);
  EXPECT_NE(refusal(HostTensor(Dtype::f32, {3, 0}), {}).find("wanted [..., C]"), std::string::npos);
}

}  // namespace
}  // namespace sectionflow

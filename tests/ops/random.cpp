#include "graph/ops/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

HostTensor drawn(Value value, RandomAddress address = {.seed = 7, .node = 0, .step = 3}, int threads = 2) {
  return std::move(run_kernels({value}, {}, {.threads = threads, .random = address})[0]);
}

std::vector<Value> one_of_each(Graph& graph, const Shape& shape) {
  return {random_normal(graph, shape, {.mean = 1, .stddev = 3}),
          truncated_normal(graph, shape, {.mean = -2, .stddev = 0.5F}),
          random_uniform(graph, shape, {.low = -1, .high = 4})};
}

struct SampleMoments {
  double mean = 0, variance = 0, skew = 0;
};

SampleMoments sample_moments(const HostTensor& tensor) {
  SampleMoments moments;
  const double count = static_cast<double>(tensor.num_elements());
  for (float x : tensor.values<float>()) moments.mean += x / count;
  for (float x : tensor.values<float>()) {
    const double d = x - moments.mean;
    moments.variance += d * d / count;
    moments.skew += d * d * d / count;
  }
  return moments;
}

constexpr std::int64_t kSample = 200'001;

TEST(Random, NormalNumbersHaveTheirMoments) {
  Graph graph;
  const SampleMoments moments = sample_moments(drawn(random_normal(graph, {kSample}, {.mean = 1, .stddev = 3})));
  EXPECT_NEAR(moments.mean, 1, 0.03);
  EXPECT_NEAR(moments.variance, 9, 0.15);
  EXPECT_NEAR(moments.skew, 0, 0.8);
}

TEST(Random, TruncatedNumbersHaveTheirMomentsAndStayWithinTwoDeviations) {
  Graph graph;
  const HostTensor x = drawn(truncated_normal(graph, {kSample}, {.mean = -2, .stddev = 0.5F}));
  // Of a standard normal within 2 deviations: 1 - 4 phi(2) / (2 Phi(2) - 1).
  constexpr double kVariance = 0.7737;
  const SampleMoments moments = sample_moments(x);
  EXPECT_NEAR(moments.mean, -2, 0.005);
  EXPECT_NEAR(moments.variance, 0.25 * kVariance, 0.003);
  EXPECT_NEAR(moments.skew, 0, 0.003);
  const auto [least, most] = std::minmax_element(x.values<float>().begin(), x.values<float>().end());
  EXPECT_GE(*least, -3);
  EXPECT_LE(*most, -1);
  EXPECT_LT(*least, -2.99);
  EXPECT_GT(*most, -1.01);
}

TEST(Random, UniformNumbersHaveTheirMomentsAndStayInRange) {
  Graph graph;
  const HostTensor x = drawn(random_uniform(graph, {kSample}, {.low = -1, .high = 4}));
  const SampleMoments moments = sample_moments(x);
  EXPECT_NEAR(moments.mean, 1.5, 0.015);
  EXPECT_NEAR(moments.variance, 25.0 / 12, 0.03);
  EXPECT_NEAR(moments.skew, 0, 0.05);
  for (float value : x.values<float>()) {
    ASSERT_GE(value, -1);
    ASSERT_LE(value, 4);
  }
}

TEST(Random, AnElementIsMadeOfTheWordsOfItsAddress) {
  Graph graph;
  const Value other = random_normal(graph, {2}), uniform = random_uniform(graph, {11}),
              normal = random_normal(graph, {11});
  ASSERT_EQ(uniform.node().random_ordinal(), 1U);
  const RandomAddress address{.seed = 0x123456789ABCDEF0, .node = 0, .step = 42};
  const auto results = run_kernels({uniform, normal, other}, {}, {.random = address});
  for (std::size_t e = 0; e < 11; ++e) {
    const auto uniform_words = random_words({address.seed, 1, address.step}, e / 4);
    EXPECT_EQ(results[0].values<float>()[e], uniform_from_word(uniform_words[e % 4]));
    const auto words = random_words({address.seed, 2, address.step}, e / 4);
    const std::size_t pair = e % 4 / 2 * 2;
    EXPECT_EQ(results[1].values<float>()[e], normals_from_words(words[pair], words[pair + 1])[e % 2]);
  }
}

/// What element `e` of a standard normal tensor is made of in attempt `attempt`.
float normal_at(const RandomAddress& address, std::size_t e, std::uint64_t attempt) {
  const auto words = random_words(address, e / 4 + (attempt << 48));
  const std::size_t pair = e % 4 / 2 * 2;
  return normals_from_words(words[pair], words[pair + 1])[e % 2];
}

TEST(Random, ATruncatedNumberIsTheFirstThatFitsAtItsOwnAddress) {
  Graph graph;
  const RandomAddress address{.seed = 7, .node = 0, .step = 3};
  const HostTensor x = drawn(truncated_normal(graph, {10'000}), address);
  int num_redrawn = 0;
  for (std::size_t e = 0; e < 10'000; ++e) {
    std::uint64_t attempt = 0;
    while (std::abs(normal_at(address, e, attempt)) > 2) ++attempt;
    ASSERT_EQ(x.values<float>()[e], normal_at(address, e, attempt)) << "element " << e;
    num_redrawn += attempt > 0;
  }
  EXPECT_NEAR(num_redrawn, 455, 80);
}

TEST(Random, BitsDoNotDependOnTheThreadCount) {
  Graph graph;
  const std::vector<Value> values = one_of_each(graph, {101, 103});
  const RandomAddress address{.seed = 5, .node = 0, .step = 9};
  const auto one = run_kernels(values, {}, {.threads = 1, .random = address});
  for (int threads : {2, 3, 7}) {
    const auto several = run_kernels(values, {}, {.threads = threads, .random = address});
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], several[i]));
  }
}

TEST(Random, AShorterTensorIsThePrefixOfALongerOne) {
  Graph short_graph, long_graph;
  const auto few = one_of_each(short_graph, {37}), many = one_of_each(long_graph, {50, 100});
  for (std::size_t i = 0; i < few.size(); ++i) {
    const HostTensor x = drawn(few[i]), y = drawn(many[i]);
    EXPECT_TRUE(std::equal(x.values<float>().begin(), x.values<float>().end(), y.values<float>().begin()));
  }
}

TEST(Random, AReplayGivesTheSameNumbers) {
  Graph graph;
  const std::vector<Value> values = one_of_each(graph, {999});
  const auto first = run_kernels(values, {});
  const auto replayed = run_kernels(values, {}, {.replay = true, .garbage = 0, .address_seed = 3});
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i], replayed[i]));
}

TEST(Random, AnotherSeedStepOrNodeGivesOtherNumbers) {
  Graph graph;
  const Value x = random_uniform(graph, {64}), y = random_uniform(graph, {64});
  const HostTensor base = drawn(x, {.seed = 1, .node = 0, .step = 1});
  EXPECT_TRUE(same_bits(base, drawn(x, {.seed = 1, .node = 0, .step = 1})));
  EXPECT_FALSE(bitwise_equal(base, drawn(x, {.seed = 2, .node = 0, .step = 1})));
  EXPECT_FALSE(bitwise_equal(base, drawn(x, {.seed = 1, .node = 0, .step = 2})));
  EXPECT_FALSE(bitwise_equal(base, drawn(y, {.seed = 1, .node = 0, .step = 1})));
}

TEST(Random, MayBeEmptyOrScalar) {
  Graph graph;
  for (Value value : one_of_each(graph, {3, 0})) EXPECT_EQ(drawn(value).num_elements(), 0);
  for (Value value : one_of_each(graph, {})) EXPECT_TRUE(std::isfinite(drawn(value).item<float>()));
}

}  // namespace
}  // namespace sectionflow

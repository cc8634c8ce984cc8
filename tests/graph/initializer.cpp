#include "graph/initializer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "graph/layers.h"
#include "graph/nodes/random.h"
#include "graph/ops/basic.h"
#include "graph/ops/random.h"
#include "tests/graph/description.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::run_kernels;

const RandomOptions& random_options(const Value& value) {
  return value.node().options<RandomOptions>();
}

double variance_of(const HostTensor& tensor) {
  double sum = 0, sum_squares = 0;
  for (float x : tensor.values<float>()) {
    sum += x;
    sum_squares += static_cast<double>(x) * x;
  }
  const auto count = static_cast<double>(tensor.num_elements());
  return sum_squares / count - sum / count * (sum / count);
}

TEST(Initializer, ConstantsFillTheShape) {
  Graph graph;
  const std::pair<Initializer, double> all[] = {{zeros(), 0}, {ones(), 1}, {constant_initializer(-2.5), -2.5}};
  for (const auto& [initializer, wanted] : all) {
    const Value value = initializer({graph, {2, 3}});
    EXPECT_EQ(value.type().text(), "f32[2,3]");
    EXPECT_EQ(value.node().options<FillOptions>().value, wanted);
  }
}

TEST(Initializer, HeNormalHasTheVarianceTwoOverFanInAfterTruncation) {
  Graph graph;
  const Value value = he_normal()({graph, {400, 500}, 50, 7});
  EXPECT_EQ(random_options(value).distribution, Distribution::truncated_normal);
  EXPECT_EQ(random_options(value).a, 0);
  // The standard error of the variance of 200000 such numbers is below 0.3 %.
  EXPECT_NEAR(variance_of(run_kernels({value}, {})[0]), 2.0 / 50, 0.015 * 2.0 / 50);
}

TEST(Initializer, GlorotUniformHasTheVarianceTwoOverBothFans) {
  Graph graph;
  const Value value = glorot_uniform()({graph, {400, 500}, 30, 10});
  EXPECT_EQ(random_options(value).distribution, Distribution::uniform);
  EXPECT_EQ(random_options(value).a, -random_options(value).b);
  EXPECT_FLOAT_EQ(random_options(value).b, std::sqrt(6.0F / 40));
  EXPECT_NEAR(variance_of(run_kernels({value}, {})[0]), 2.0 / 40, 0.015 * 2.0 / 40);
}

TEST(Initializer, TruncatedNormalStaysWithinTwoOfTheStandardDeviationsGiven) {
  Graph graph;
  const Value value = truncated_normal_initializer(0.5F)({graph, {1000}});
  EXPECT_EQ(random_options(value).b, 0.5F);
  const HostTensor drawn = std::move(run_kernels({value}, {})[0]);
  for (float x : drawn.values<float>()) ASSERT_LE(std::abs(x), 1.0F);
  EXPECT_THROW(truncated_normal_initializer(0)({graph, {2}}), ArgumentError);
}

TEST(Initializer, LayersAskWithTheirFans) {
  Graph graph;
  double fan_in = 0, fan_out = 0;
  const Initializer spy = [&](const InitializerRequest& request) {
    fan_in = request.fan_in;
    fan_out = request.fan_out;
    return zeros()(request);
  };
  dense(placeholder(graph, "x", {4, 5}), {.features = 7, .bias = false, .kernel_initializer = spy});
  EXPECT_EQ(fan_in, 5);
  EXPECT_EQ(fan_out, 7);
  conv2d(placeholder(graph, "image", {4, 8, 8, 3}), {.features = 16, .kernel = {5, 2}, .kernel_initializer = spy});
  EXPECT_EQ(fan_in, 5 * 2 * 3);
  EXPECT_EQ(fan_out, 5 * 2 * 16);
}

TEST(Initializer, ValueOfAnotherShapeIsRefusedNamingTheParameter) {
  Graph graph;
  const Initializer wrong = [](const InitializerRequest& request) { return fill(request.graph, {3}, 0); };
  const std::string text = error_text<ShapeError>([&] {
    dense(placeholder(graph, "x", {4, 5}), {.features = 7, .kernel_initializer = wrong});
  });
  EXPECT_TRUE(contains(text, "'kernel'") && contains(text, "[3]") && contains(text, "[5,7]")) << text;
}

TEST(Initializer, TwoParametersOfOneShapeStartDifferently) {
  Graph graph;
  const Value a = he_normal()({graph, {100}, 10});
  const Value b = he_normal()({graph, {100}, 10});
  const auto values = run_kernels({a, b}, {});
  EXPECT_FALSE(bitwise_equal(values[0], values[1]));
}

}  // namespace
}  // namespace sectionflow

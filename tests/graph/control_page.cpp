// What docs/control.md shows is compiled and run here, word for word.
#include <gtest/gtest.h>

#include <vector>

#include "autodiff/custom_gradient.h"
#include "autodiff/optimizers.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/control.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "runtime/session.h"

namespace sectionflow::control_page {
namespace {

/// A graph whose only input is fed eight numbers of either sign four times.
struct Page {
  float first_of(Value value, Feeds more = {}) {
    Session session(graph, {.threads = 1, .check_schedules = true});
    session.initialize();
    more.push_back({x, numbers});
    return session.run({value}, more)[0].values<float>()[0];
  }

  Graph graph;
  Value x = placeholder(graph, "x", {4, 8});
  HostTensor numbers = [] {
    HostTensor all(Dtype::f32, {4, 8});
    float next = -2.0F;
    for (float& number : all.values<float>()) number = next += 0.1F;
    return all;
  }();
};

TEST(ControlPage, TakesABranch) {
  Page page;
  Graph& graph = page.graph;
  const Value x = page.x;
  const HostTensor& numbers = page.numbers;
  Value y;
  const Value deep = placeholder(graph, "deep", {}, Dtype::boolean);
  y = cond(
      deep, [&] { return relu(dense(relu(dense(x, {.features = 64})), {.features = 8})); },
      [&] { return dense(x, {.features = 8}); });
  const Value loss = mean(square(y));
  const auto training = minimize(Sgd{}, loss);
  Session session(graph, {.threads = 1, .check_schedules = true});
  session.initialize();
  session.run({loss}, {{x, numbers}, {deep, true}}, {.targets = training});
  session.run({loss}, {{x, numbers}, {deep, false}}, {.targets = training});
  EXPECT_EQ(session.completed_cycles(), 2U);
}

TEST(ControlPage, AddsNoiseInTrainingAlone) {
  Page page;
  Graph& graph = page.graph;
  const Value x = page.x;
  Value y;
  y = cond(
      graph.training(),
      [&] {
        return x + random_normal(graph, {4, 8}, {.stddev = 0.1F});
      },
      [&] { return x; });
  EXPECT_EQ(page.first_of(y), page.numbers.values<float>()[0]);
  EXPECT_NE(page.first_of(y, {{graph.training(), true}}), page.numbers.values<float>()[0]);
}

TEST(ControlPage, SelectsElements) {
  Page page;
  const Value x = page.x;
  const Value clipped = select(x < -1.0F, square(x), x);
  EXPECT_GT(page.first_of(clipped), 3.0F);
  const Value positive = x > 0.0F;
  const Value root = select(positive, sqrt(select(positive, x, 1.0F)), 0.0F);
  EXPECT_EQ(page.first_of(gradients(reduce_sum(root), {x})[0]), 0.0F);
}

TEST(ControlPage, TellsAGradient) {
  Page page;
  const Value x = page.x;
  const Value rounded = custom_gradient(
      {x}, [](const std::vector<Value>& in) { return sign(in[0]); },
      [](const BackwardRequest& r) { return std::vector{r.dy}; });
  EXPECT_EQ(page.first_of(gradients(reduce_sum(rounded), {x})[0]), 1.0F);
}

TEST(ControlPage, Asserts) {
  Page page;
  const Value weights = variable("weights", constant(page.graph, HostTensor::of<float>({3}, {1, -2, 3})));
  Value loss = mean(weights);
  loss = assert_that(loss, weights > 0.0F, {.text = "weights are positive", .shown = {weights}});
  EXPECT_THROW((void)page.first_of(loss), ArgumentError);
}

}  // namespace
}  // namespace sectionflow::control_page

#include "autodiff/custom_gradient.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/gradients.h"
#include "base/error.h"
#include "graph/graph_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/parameter.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/moved.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using Inputs = std::vector<Value>;

/// Expects an error of the type whose text has all parts.
template <class Wanted, class Call>
void expect_error(const Call& call, const std::vector<std::string>& parts) {
  expect_refused<Wanted>(call, "", parts);
}

Value first_of(const Inputs& in) {
  return in[0] * 2.0F;
}
std::vector<Value> dy_alone(const BackwardRequest& r) {
  return {r.dy};
}

/// The numbers of what is fetched, where x is [2] and fed with 3 and -0.25.
std::vector<Doubles> numbers_of(const std::vector<Value>& fetches, Value x) {
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2}, {3, -0.25F}));
  std::vector<Doubles> numbers;
  for (const HostTensor& tensor : run_kernels(fetches, feeds)) numbers.push_back(doubles_of(tensor));
  return numbers;
}

TEST(CustomGradient, LetsGradientsPassWhereTheRulesSayZero) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value y = custom_gradient(
      {x}, [](const Inputs& in) { return sign(in[0]); }, dy_alone);
  const Value dx = gradients(reduce_sum(y * x), {x})[0];
  const auto numbers = numbers_of({y, dx}, x);
  EXPECT_EQ(numbers[0], (Doubles{1, -1}));
  EXPECT_EQ(numbers[1], (Doubles{1 + 3, -1 - 0.25}));
}

TEST(CustomGradient, TakesThePlaceOfTheRules) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const auto reversed = [](const BackwardRequest& r) { return std::vector{r.dy * -0.5F}; };
  const Value dx = gradients(reduce_sum(custom_gradient({x}, first_of, reversed)), {x})[0];
  EXPECT_EQ(numbers_of({dx}, x)[0], (Doubles{-0.5, -0.5}));
}

TEST(CustomGradient, IsDifferentiatedAgainByWhatBackwardBuilt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  // Said to be that of x^3, with y in it: dy 3 y / x.
  const Value y = custom_gradient(
      {x}, [](const Inputs& in) { return in[0] * in[0] * in[0]; },
      [](const BackwardRequest& r) { return std::vector{r.dy * 3.0F * r.y / r.inputs[0]}; });
  const Value dx = gradients(reduce_sum(y), {x})[0];
  const Value second = gradients(reduce_sum(dx), {x})[0];
  const auto numbers = numbers_of({dx, second}, x);
  EXPECT_EQ(numbers[0], (Doubles{27, 3 * 0.0625}));
  EXPECT_EQ(numbers[1], (Doubles{18, -1.5}));
}

TEST(CustomGradient, AsksForWhatIsWantedAndTakesNoneForZero) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2}), unused = placeholder(graph, "unused", {2});
  std::vector<std::vector<bool>> wanted;
  const Value y = custom_gradient(
      {x, unused, x + 1.0F}, [](const Inputs& in) { return in[0] * in[1] + in[2]; },
      [&](const BackwardRequest& r) {
        wanted.push_back(r.wanted);
        return std::vector{r.dy * 5.0F, Value(), Value()};
      });
  const Value dx = gradients(reduce_sum(y), {x})[0];
  EXPECT_EQ(wanted, (std::vector<std::vector<bool>>{{true, false, true}}));
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({2}, {3, 4}));
  feeds.emplace(unused, HostTensor::of<float>({2}, {1, 1}));
  EXPECT_EQ(doubles_of(run_kernels({dx}, feeds)[0]), (Doubles{5, 5}));
}

TEST(CustomGradient, OfAFileComputesAndIsRefusedByGradients) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "graph.json";
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value loss = reduce_sum(custom_gradient({x}, first_of, dy_alone));
  const std::string name = loss.node().name();
  save_graph(graph, file);
  Graph loaded;
  load_graph(loaded, file);
  const Value x_again = loaded.find("x").output(), loss_again = loaded.find(name).output();
  EXPECT_EQ(numbers_of({loss_again}, x_again)[0], (Doubles{5.5}));
  expect_error<ArgumentError>([&] { (void)gradients(loss_again, {x_again}); },
                              {"custom_gradient", "came from a file", "make gradients before save_graph"});
}

TEST(CustomGradient, ComputesForwardAgainWhereDyCountsAsConstant) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const auto cubes = [](const Inputs& in) { return in[0] * in[0] * in[0]; };
  const auto with = [&](const std::function<Value(Value)>& of_dy) {
    const Value y = custom_gradient({x}, cubes, [=](const BackwardRequest& r) {
      return gradients(reduce_sum(cubes(r.inputs) * of_dy(r.dy)), r.inputs);
    });
    return gradients(reduce_sum(square(y)), {x})[0];
  };
  const Value dx = with([](Value dy) { return stop_gradient(dy); });
  EXPECT_EQ(numbers_of({dx}, x)[0], (Doubles{2 * 27 * 27, 2 * (-0.015625) * 0.1875}));
  expect_error<ArgumentError>([&] { (void)with([](Value dy) { return dy; }); },
                              {"would be asked again", "stop_gradient(dy)"});
}

TEST(CustomGradient, IsHeldToItsInputWhereTheFeedDecides) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 2});
  const Value y = custom_gradient({x}, first_of, [](const BackwardRequest& r) {
    return std::vector{reduce_sum(r.dy, {.axes = {0}, .keep_dims = true})};
  });
  const Value dx = gradients(reduce_sum(y), {x})[0];
  testing_support::Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  expect_error<ShapeError>([&] { (void)run_kernels({dx}, feeds); }, {"the gradient that backward gave", "is 1", "3"});
}

// ---- What is refused, before anything is made.

void expect_untouched(Graph& graph, const std::function<void()>& call, const std::vector<std::string>& parts) {
  const std::int64_t nodes = graph.num_nodes();
  expect_error<ArgumentError>(call, parts);
  EXPECT_EQ(graph.num_nodes(), nodes);
}

TEST(CustomGradient, RefusesWhatWouldLoseGradients) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 2}), other = tanh(placeholder(graph, "other", {2, 2}));
  expect_untouched(graph,
                   [&] {
                     (void)custom_gradient(
                         {x}, [&](const Inputs& in) { return in[0] * other; }, dy_alone);
                   },
                   {"forward reads 'tanh'", "which is no input", "stop_gradient('tanh')"});
  expect_untouched(graph,
                   [&] {
                     (void)custom_gradient(
                         {x}, [](const Inputs& in) { return dense(in[0], {.features = 2}); }, dy_alone);
                   },
                   {"forward makes the variable", "make it before"});
  const Value free = stop_gradient(other);
  EXPECT_NO_THROW((void)custom_gradient(
      {x}, [&](const Inputs& in) { return in[0] * free + 3.0F; }, dy_alone));
}

TEST(CustomGradient, RefusesFunctionsThatGiveSomethingElse) {
  Graph graph, elsewhere;
  const Value x = placeholder(graph, "x", {2}), there = placeholder(elsewhere, "there", {2});
  const Value whole = placeholder(graph, "whole", {2}, Dtype::i32);
  const auto of = [&](std::function<Value(const Inputs&)> forward) {
    return [&, forward = std::move(forward)] { (void)custom_gradient({x}, forward, dy_alone); };
  };
  expect_untouched(graph, of([](const Inputs& in) { return in[0]; }), {"gave 'x'", "there before"});
  expect_untouched(graph, of([](const Inputs&) { return Value(); }), {"gave no value"});
  expect_untouched(graph, of([&](const Inputs&) { return there; }), {"another graph"});
  expect_untouched(graph, of([&](const Inputs&) { return cast(whole, Dtype::i64); }), {"i64", "wanted f32 or bf16"});
  expect_untouched(graph, [&] { (void)custom_gradient({}, first_of, dy_alone); }, {"no inputs"});
  expect_untouched(graph, [&] { (void)custom_gradient({x}, nullptr, dy_alone); }, {"forward is no function"});
  expect_untouched(graph, [&] { (void)custom_gradient({x, there}, first_of, dy_alone); }, {"there"});
}

TEST(CustomGradient, RefusesGradientsThatDoNotFit) {
  Graph graph, elsewhere;
  const Value x = placeholder(graph, "x", {2}), there = placeholder(elsewhere, "there", {2});
  const auto gradients_of = [&](BackwardFunction backward) {
    return [&, backward = std::move(backward)] {
      const Value y = custom_gradient({x}, first_of, backward);
      (void)gradients(reduce_sum(y), {x});
    };
  };
  expect_error<ArgumentError>(gradients_of([](const BackwardRequest& r) {
                                return std::vector{r.dy, r.dy};
                              }),
                              {"backward gave 2 gradients for 1 input"});
  expect_error<ShapeError>(gradients_of([](const BackwardRequest& r) { return std::vector{reduce_sum(r.dy)}; }),
                           {"backward gave f32[] for input 0, 'x'", "wanted it like that, f32[2]"});
  expect_error<ArgumentError>(gradients_of([&](const BackwardRequest&) { return std::vector{there}; }),
                              {"of another graph"});
  expect_error<ArgumentError>(gradients_of([&](const BackwardRequest& r) {
                                (void)parameter("late", zeros(), {graph, {2}});
                                return std::vector{r.dy};
                              }),
                              {"backward made a variable"});
}

}  // namespace
}  // namespace sectionflow

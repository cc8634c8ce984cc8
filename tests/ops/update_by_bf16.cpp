// Updates of f32 variables by gradients of bf16.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// An update of state[0], whose slots are the others.
struct NarrowCase {
  std::string name;
  int num_slots;
  std::function<Operation(const std::vector<Value>& state, Value gradient, Value rate, Value steps)> build;
};

std::vector<NarrowCase> narrow_cases() {
  using State = const std::vector<Value>&;
  return {
      {"sgd", 0, [](State s, Value g, Value rate, Value) { return apply_sgd(s[0], g, rate); }},
      {"momentum", 1, [](State s, Value g, Value rate, Value) { return apply_momentum(s[0], s[1], g, rate); }},
      {"nesterov", 1,
       [](State s, Value g, Value rate, Value) {
         return apply_momentum(s[0], s[1], g, rate, {.momentum = 0.8F, .nesterov = true});
       }},
      {"adagrad", 1, [](State s, Value g, Value rate, Value) { return apply_adagrad(s[0], s[1], g, rate); }},
      {"rms_prop", 1, [](State s, Value g, Value rate, Value) { return apply_rms_prop(s[0], s[1], g, rate); }},
      {"lion", 1, [](State s, Value g, Value rate, Value) { return apply_lion(s[0], s[1], g, rate); }},
      {"adam", 2,
       [](State s, Value g, Value rate, Value steps) { return apply_adam(s[0], s[1], s[2], g, rate, steps); }},
      {"adam_w", 2,
       [](State s, Value g, Value rate, Value steps) { return apply_adam_w(s[0], s[1], s[2], g, rate, steps); }},
  };
}

/// The variable and its slots behind an update by a gradient that a cast widens before it, or the update itself.
std::vector<HostTensor> state_behind(const NarrowCase& c, const Shape& shape, bool has_cast, int threads) {
  Graph graph;
  Feeds feeds;
  std::vector<Value> state;
  for (int i = 0; i <= c.num_slots; ++i) {
    state.push_back(variable("w", fill(graph, shape, 0, Dtype::f32)));
    HostTensor content(Dtype::f32, shape);
    for (int k = 1; float& element : content.values<float>()) {
      element = std::abs(std::sin(1.7F * static_cast<float>(k++) + static_cast<float>(i)));
    }
    feeds.emplace(state.back(), std::move(content));
  }
  const Value gradient = placeholder(graph, "gradient", shape, Dtype::bf16);
  HostTensor narrow(gradient.type());
  for (int k = 0; BFloat16 & element : narrow.values<BFloat16>())
    element = BFloat16(std::sin(2.9F * static_cast<float>(k++)));
  feeds.emplace(gradient, std::move(narrow));
  const Value steps = variable("steps", fill(graph, {}, 0, Dtype::i64));
  feeds.emplace(steps, HostTensor::scalar<std::int64_t>(3));
  const Value taken = has_cast ? cast(gradient, Dtype::f32) : gradient;
  RunResult result = run_kernels({}, {c.build(state, taken, constant(graph, 0.0625F), steps)}, feeds,
                                 {.threads = threads, .address_seed = 11});
  std::vector<HostTensor> after;
  for (Value each : state) after.push_back(std::move(result.variables.at(each)));
  return after;
}

TEST(UpdatesByBf16, HaveTheBitsOfACastBeforeThem) {
  for (const NarrowCase& c : narrow_cases()) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{3, 5, 2}, Shape{40003}}) {
      const auto wanted = state_behind(c, shape, true, 1);
      for (int threads : {1, 3}) {
        const auto found = state_behind(c, shape, false, threads);
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          EXPECT_TRUE(same_bits(found[k], wanted[k])) << c.name << " of " << shape.text() << ", variable " << k;
        }
      }
    }
  }
}

TEST(UpdatesByBf16, TakeGradientsOfNoOtherTypeOrShape) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 0, Dtype::f32)), rate = constant(graph, 0.1F);
  const Value narrow = variable("narrow", fill(graph, {2}, 0, Dtype::bf16));
  EXPECT_THROW(apply_sgd(w, placeholder(graph, "wide", {2}, Dtype::f64), rate), ArgumentError);
  EXPECT_THROW(apply_sgd(w, placeholder(graph, "long", {3}, Dtype::bf16), rate), ShapeError);
  EXPECT_THROW(apply_momentum(w, narrow, w, rate), ArgumentError) << "slots are f32";
  EXPECT_THROW(apply_sgd(narrow, narrow, rate), ArgumentError) << "variables are f32";
}

TEST(UpdatesByBf16, OfAnOptimizerTakeWhatACastOfTheVariableLeadsTo) {
  Graph graph;
  const Value w = variable("w", fill(graph, {4, 3}, 1, Dtype::f32)), b = variable("b", fill(graph, {3}, 1, Dtype::f32));
  const Value x = placeholder(graph, "x", {5, 4}, Dtype::bf16);
  const Value y = cast(matmul(x, cast(w, Dtype::bf16)), Dtype::f32);
  const auto pairs = compute_gradients(reduce_mean(y) + reduce_mean(b));
  const auto updates = apply_gradients(Adam{}, pairs);
  EXPECT_EQ(pairs[0].gradient.dtype(), Dtype::f32) << "for whoever wants to see it";
  EXPECT_EQ(updates[0].node().inputs()[3].dtype(), Dtype::bf16);
  EXPECT_EQ(updates[1].node().inputs()[3], pairs[1].gradient) << "no cast, nothing to leave out";
}

TEST(UpdatesByBf16, ReadACastOfTheUsersOwnWhichMayHaveEdges) {
  Graph graph;
  const Value w = variable("w", fill(graph, {2}, 1, Dtype::f32));
  const Value gradient = cast(placeholder(graph, "narrow", {2}, Dtype::bf16), Dtype::f32);
  EXPECT_EQ(apply_gradients(Sgd{}, {{gradient, w}})[0].node().inputs()[1], gradient);
}

}  // namespace
}  // namespace sectionflow

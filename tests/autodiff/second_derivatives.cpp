// Gradients of functions of gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/nodes/unary.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/identities.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/gradient_check.h"
#include "tests/support/op_case.h"

namespace sectionflow {
namespace {

using namespace testing_support;

// ---- Penalties on a gradient, by hand.

/// d/dw of sum (d sum f(w x) / dx)^2 at w = 0.1, 0.2 and x = 3, 4.
Doubles penalty_gradient(Value (*f)(Value, Where)) {
  Graph graph;
  const Value w = placeholder(graph, "w", {2}), x = placeholder(graph, "x", {2});
  const Value dx = gradients(reduce_sum(f(w * x, {})), {x})[0];
  const Value dw = gradients(reduce_sum(square(dx)), {w})[0];
  Feeds feeds;
  feeds.emplace(w, HostTensor::of<float>({2}, {0.1F, 0.2F}));
  feeds.emplace(x, HostTensor::of<float>({2}, {3, 4}));
  return doubles_of(run_kernels({dw}, feeds)[0]);
}

void expect_near(const Doubles& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 64 * kF32Epsilon);
}

TEST(GradientPenalty, ThroughSquare) {
  // dx = 2 w^2 x; the penalty 4 w^4 x^2.
  expect_near(penalty_gradient(square), {16 * 0.001 * 9, 16 * 0.008 * 16});
}

TEST(GradientPenalty, ThroughRelu) {
  // dx = w where w x > 0.
  expect_near(penalty_gradient(relu), {0.2, 0.4});
}

TEST(GradientPenalty, ThroughTanh) {
  // dx = w (1 - t^2); the penalty's derivative 2 w (1 - t^2)^2 (1 - 2 w x t).
  std::vector<double> wanted;
  for (const auto& [w, x] : {std::pair(0.1, 3.0), {0.2, 4.0}}) {
    const double t = std::tanh(w * x), slope = 1 - t * t;
    wanted.push_back(2 * w * slope * slope * (1 - 2 * w * x * t));
  }
  expect_near(penalty_gradient(tanh), wanted);
}

TEST(SecondDerivativesOfPow, AreThoseOfPolynomialsAtZeroToo) {
  for (const auto& [exponent, wanted] : {std::pair(0.0F, 0.0), {1.0F, 0.0}, {2.0F, 2.0}, {3.0F, 0.0}, {4.0F, 0.0}}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {1});
    const Value dx = gradients(reduce_sum(pow(x, exponent)), {x})[0];
    Feeds feeds;
    feeds.emplace(x, HostTensor::of<float>({1}, {0}));
    EXPECT_EQ(doubles_of(run_kernels({gradients(reduce_sum(dx), {x})[0]}, feeds)[0]), Doubles{wanted}) << exponent;
  }
}

// ---- Every subject beside differences; tests/fuzz/gradient_checks takes as many seeds as one likes.

class SecondDerivatives : public testing::TestWithParam<GradientSubject> {};
TEST_P(SecondDerivatives, EqualMixedDifferencesInDouble) {
  int checked = 0;
  for (std::uint64_t seed = 1; seed <= 8 && checked < 3; ++seed) {
    const GradientFinding finding = check_gradients(gradient_registry(), GetParam(), seed);
    if (finding.error.empty() && !finding.is_smooth) continue;
    ++checked;
    EXPECT_TRUE(finding.is_right()) << "seed " << seed << ": " << finding.text();
  }
  EXPECT_EQ(checked, 3) << "too many kinks";
}
INSTANTIATE_TEST_SUITE_P(Subjects, SecondDerivatives, testing::ValuesIn(gradient_subjects()),
                         [](const testing::TestParamInfo<GradientSubject>& info) { return info.param.name; });

TEST(SecondDerivativesFaults, AWrongRuleIsFound) {
  const auto subject_of = [](const std::string& name) {
    for (const GradientSubject& subject : gradient_subjects()) {
      if (subject.name == name) return subject;
    }
    throw std::runtime_error("no subject " + name);
  };
  GradientRegistry faulty = gradient_registry();
  // As if the derivative of tanh did not depend on its output.
  faulty.add("tanh_grad",
             [](const GradientRequest& r) {
               return std::vector{tanh_grad(r.dy(), r.input(1)), Value()};
             },
             {.zero_inputs = {1}});
  const GradientFinding of_tanh = check_gradients(faulty, subject_of("tanh"), 2);
  ASSERT_TRUE(of_tanh.is_smooth);
  EXPECT_LE(of_tanh.first.share(), 1) << of_tanh.text();
  EXPECT_GT(of_tanh.second.share(), 10) << of_tanh.text();
  faulty.add("mul", [](const GradientRequest& r) { return std::vector{r.dy(), r.dy()}; });
  EXPECT_FALSE(check_gradients(faulty, subject_of("mul"), 3).is_right());
}

// ---- Dimensions that a feed decides, and bf16.

struct ModelCase {
  const char* name;
  Shape x;
  std::function<Value(Graph&, Value x)> build;
};

Value channels(Graph& graph, std::int64_t count, float value) {
  return constant(graph, HostTensor::of<float>({count}, std::vector<float>(static_cast<std::size_t>(count), value)));
}

const ModelCase kModels[] = {
    {"broadcast", {3, 4}, [](Graph& graph, Value x) { return tanh(x + channels(graph, 4, 0.2F)) * mean(x); }},
    {"broadcast of the batch", {3, 1}, [](Graph& graph, Value x) { return tanh(x * x + channels(graph, 4, 0.3F)); }},
    {"bias", {3, 4}, [](Graph& graph, Value x) { return silu(bias_add(x * x, channels(graph, 4, 0.2F))); }},
    {"layer norm",
     {3, 5},
     [](Graph& graph, Value x) { return tanh(layer_norm(x, channels(graph, 5, 0.8F), channels(graph, 5, 0.1F))); }},
    {"group norm",
     {2, 3, 4},
     [](Graph& graph, Value x) {
       return tanh(group_norm(x, channels(graph, 4, 0.8F), channels(graph, 4, 0.1F), {.groups = 2}));
     }},
    {"rms norm", {3, 5}, [](Graph& graph, Value x) { return tanh(rms_norm(x, channels(graph, 5, 0.8F))); }},
    {"batch norm",
     {6, 3},
     [](Graph& graph, Value x) {
       const Value c = channels(graph, 3, 0.9F);
       return tanh(batch_norm(x, c, c, c, c, constant(graph, HostTensor::scalar(true)), {.relu = true}).y);
     }},
    {"max pool", {2, 4, 4, 3}, [](Graph&, Value x) { return square(max_pool2d(x)); }},
    {"max pool nchw",
     {2, 3, 4, 4},
     [](Graph&, Value x) {
       return square(max_pool2d(x, {.window = {3, 3}, .format = DataFormat::nchw}));
     }},
    {"attention", {2, 2, 3, 4}, [](Graph&, Value x) { return attention(x, x * x, x, {.causal = true}); }},
    {"softmax", {3, 5}, [](Graph&, Value x) { return square(softmax(x)) * log_softmax(x); }},
    {"cross entropy of labels whose number is known",
     {3, 5},
     [](Graph& graph, Value x) {
       const Value labels = constant(graph, HostTensor::of<std::int32_t>({3}, {0, 4, 2}));
       return softmax_cross_entropy(x, labels, {.label_smoothing = 0.1F, .class_weights = channels(graph, 5, 0.7F)});
     }},
    {"largest", {3, 5}, [](Graph&, Value x) { return square(reduce_max(x * x, {.axes = {-1}})); }},
    {"pow and clip",
     {3, 5},
     [](Graph&, Value x) { return pow(sigmoid(x), 2.5F) * clip(x, -0.5F, 0.5F) / (exp(x) + 1.0F); }},
    {"gelu", {3, 5}, [](Graph&, Value x) { return gelu(x) * gelu(x, {Gelu::tanh}) * relu(x); }}};

/// d/dx of sum (d sum y / dx)^2 + sum y, where x is declared as `declared`.
HostTensor penalty_of(const ModelCase& model, const Shape& declared) {
  Graph graph;
  const Value x = placeholder(graph, "x", declared);
  const Value y = model.build(graph, x);
  const Value dx = gradients(reduce_sum(y), {x})[0];
  const Value second = gradients(reduce_sum(square(dx)) + reduce_sum(y), {x})[0];
  std::vector<float> numbers(static_cast<std::size_t>(model.x.num_elements()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(static_cast<int>(i * 37 % 53) - 25) / 16;
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>(model.x, numbers));
  return std::move(run_kernels({second}, feeds)[0]);
}

TEST(SecondDerivativesOfABatch, AreTheSameWhereTheFeedDecidesItsSize) {
  for (const ModelCase& model : kModels) {
    SCOPED_TRACE(model.name);
    std::vector<std::int64_t> open = model.x.dims();
    open[0] = kDynamic;
    if (std::string(model.name) == "attention") open[0] = model.x[0];  // the causal mask's sizes are not the batch
    EXPECT_TRUE(same_bits(penalty_of(model, Shape(open)), penalty_of(model, model.x)));
  }
}

TEST(SecondDerivativesInBf16, AreThoseOfF32UpToRounding) {
  struct HalfCase {
    const char* name;
    Shape x;
    Value (*build)(Value x);
  };
  const HalfCase cases[] = {
      {"tanh", {3, 5}, [](Value x) { return tanh(x); }},
      {"sigmoid", {3, 5}, [](Value x) { return sigmoid(x); }},
      {"silu", {3, 5}, [](Value x) { return silu(x); }},
      {"gelu", {3, 5}, [](Value x) { return gelu(x); }},
      {"softmax", {3, 5}, [](Value x) { return square(softmax(x)); }},
      {"log softmax", {3, 5}, [](Value x) { return square(log_softmax(x)); }},
      {"softmax cross entropy",
       {3, 5},
       [](Value x) {
         const Value loss = softmax_cross_entropy(x, constant(x.graph(), HostTensor::of<std::int32_t>({3}, {0, 4, 2})));
         return square(loss);
       }},
      {"max pool", {2, 4, 4, 3}, [](Value x) { return square(max_pool2d(x)); }},
      {"attention", {1, 2, 3, 4}, [](Value x) { return attention(x, x, x); }},
      {"layer norm",
       {3, 6},
       [](Value x) { return tanh(layer_norm(x, channels(x.graph(), 6, 0.8F), channels(x.graph(), 6, 0.1F))); }},
      {"rms norm", {3, 6}, [](Value x) { return tanh(rms_norm(x, channels(x.graph(), 6, 0.8F))); }},
      {"batch norm", {6, 3}, [](Value x) {
         const Value c = channels(x.graph(), 3, 0.9F);
         return tanh(batch_norm(x, c, c, c, c, constant(x.graph(), HostTensor::scalar(true))).y);
       }}};
  for (const HalfCase& one : cases) {
    SCOPED_TRACE(one.name);
    const auto in = [&](Dtype dtype) {
      const ModelCase model{one.name, one.x, [&](Graph&, Value x) {
                              const Value y = one.build(dtype == Dtype::f32 ? x : cast(x, dtype));
                              return dtype == Dtype::f32 ? y : cast(y, Dtype::f32);
                            }};
      return doubles_of(penalty_of(model, model.x));
    };
    const Doubles half = in(Dtype::bf16), whole = in(Dtype::f32);
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      largest = std::max(largest, std::abs(whole[i]));
      difference = std::max(difference, std::abs(whole[i] - half[i]));
    }
    EXPECT_LE(difference, 16 * 0x1p-8 * largest);
  }
}

}  // namespace
}  // namespace sectionflow

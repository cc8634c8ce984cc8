#include "graph/ops/update.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/ops/basic.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;

/// Values without a pattern, some negative.
HostTensor wavy(const Shape& shape, float phase) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) element = std::sin(phase + 1.7F * static_cast<float>(i++));
  return tensor;
}

Value new_variable(Graph& graph, std::string_view name, const Shape& shape, Dtype dtype = Dtype::f32) {
  return variable(name, fill(graph, shape, 0, dtype));
}

const Shape kShapes[] = {{}, {7}, {0, 3}, {3, 5, 2}, {40003}};

TEST(Assign, ReplacesTheContentInEveryDtype) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
    for (const Shape& shape : kShapes) {
      Graph graph;
      const Value v = new_variable(graph, "v", shape, dtype);
      Feeds feeds;
      feeds.emplace(v, HostTensor(dtype, shape));
      const RunResult result = run_kernels({v}, {assign(v, fill(graph, shape, 1, dtype))}, feeds);
      EXPECT_TRUE(same_bits(result.fetched[0], HostTensor(dtype, shape))) << "readers see the old content";
      for (double value : doubles_of(result.variables.at(v))) ASSERT_EQ(value, 1);
    }
  }
}

TEST(Assign, OfAVariableToItselfChangesNothing) {
  Graph graph;
  const Value v = new_variable(graph, "v", {1001});
  Feeds feeds;
  feeds.emplace(v, wavy({1001}, 1));
  EXPECT_TRUE(same_bits(run_kernels({}, {assign(v, v)}, feeds).variables.at(v), feeds.at(v)));
}

TEST(AssignAdd, AddsF32) {
  for (const Shape& shape : kShapes) {
    Graph graph;
    const Value v = new_variable(graph, "v", shape), x = placeholder(graph, "x", shape);
    Feeds feeds;
    feeds.emplace(v, wavy(shape, 1));
    feeds.emplace(x, wavy(shape, 2));
    const RunResult result = run_kernels({}, {assign_add(v, x)}, feeds);
    const auto sum = result.variables.at(v).values<float>();
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_EQ(sum[i], feeds.at(v).values<float>()[i] + feeds.at(x).values<float>()[i]);
    }
  }
}

TEST(AssignAdd, CountsInI64AndDoublesAVariableAddedToItself) {
  Graph graph;
  const Value steps = new_variable(graph, "steps", {}, Dtype::i64);
  Feeds feeds;
  feeds.emplace(steps, HostTensor::scalar<std::int64_t>((std::int64_t{1} << 40) + 1));
  const Operation step = assign_add(steps, fill(graph, {}, 1, Dtype::i64)), twice = assign_add(steps, steps);
  EXPECT_EQ(run_kernels({}, {step}, feeds).variables.at(steps).item<std::int64_t>(), (std::int64_t{1} << 40) + 2);
  EXPECT_EQ(run_kernels({}, {twice}, feeds).variables.at(steps).item<std::int64_t>(), (std::int64_t{1} << 41) + 2);
}

TEST(UpdateMovingAverage, MovesTowardsTheValueWhileTraining) {
  for (const Shape& shape : kShapes) {
    Graph graph;
    const Value v = new_variable(graph, "v", shape), x = placeholder(graph, "x", shape);
    const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
    Feeds feeds;
    feeds.emplace(v, wavy(shape, 1));
    feeds.emplace(x, wavy(shape, 2));
    feeds.emplace(is_training, HostTensor::scalar(true));
    const RunResult result = run_kernels({}, {update_moving_average(v, x, is_training, 0.9F)}, feeds);
    std::vector<double> wanted = doubles_of(feeds.at(v));
    const double decay = 0.9F;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i] = decay * wanted[i] + (1 - decay) * doubles_of(feeds.at(x))[i];
    }
    EXPECT_TRUE(is_near(result.variables.at(v), wanted, {.relative = 1, .absolute = 1}));
  }
}

TEST(UpdateMovingAverage, DoesNothingWhenNotTraining) {
  Graph graph;
  const Value v = new_variable(graph, "v", {9}), x = placeholder(graph, "x", {9});
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  Feeds feeds;
  feeds.emplace(v, wavy({9}, 1));
  feeds.emplace(x, wavy({9}, 2));
  feeds.emplace(is_training, HostTensor::scalar(false));
  const RunResult result = run_kernels({}, {update_moving_average(v, x, is_training, 0.5F)}, feeds);
  const auto found = result.variables.find(v);
  EXPECT_TRUE(found == result.variables.end() || bitwise_equal(found->second, feeds.at(v)));
}

TEST(ApplySgd, StepsAgainstTheGradient) {
  for (const Shape& shape : kShapes) {
    Graph graph;
    const Value v = new_variable(graph, "v", shape), gradient = placeholder(graph, "gradient", shape);
    Feeds feeds;
    feeds.emplace(v, wavy(shape, 1));
    feeds.emplace(gradient, wavy(shape, 2));
    const RunResult result = run_kernels({}, {apply_sgd(v, gradient, constant(graph, 0.3F))}, feeds);
    const auto stepped = result.variables.at(v).values<float>();
    for (std::size_t i = 0; i < stepped.size(); ++i) {
      const float change = 0.3F * feeds.at(gradient).values<float>()[i];
      ASSERT_EQ(stepped[i], feeds.at(v).values<float>()[i] - change);
    }
  }
}

/// Adam on one variable, on kernels and in double.
class AdamRun {
 public:
  AdamRun(const Shape& shape, AdamOptions options, float learning_rate)
      : shape_(shape), options_(options), learning_rate_(learning_rate) {
    for (Value* value : {&variable_, &m_, &v_}) *value = new_variable(graph_, "w", shape);
    gradient_ = placeholder(graph_, "gradient", shape);
    steps_ = new_variable(graph_, "steps", {}, Dtype::i64);
    update_ = apply_adam(variable_, m_, v_, gradient_, constant(graph_, learning_rate), steps_, options);
    feeds_.emplace(variable_, wavy(shape, 1));
    feeds_.emplace(m_, HostTensor(Dtype::f32, shape));
    feeds_.emplace(v_, HostTensor(Dtype::f32, shape));
    wanted_ = doubles_of(feeds_.at(variable_));
    wanted_m_.resize(wanted_.size());
    wanted_v_.resize(wanted_.size());
  }

  void step(std::int64_t steps_taken, int threads = 2) {
    feeds_.insert_or_assign(gradient_, wavy(shape_, 2.3F * static_cast<float>(steps_taken)));
    feeds_.insert_or_assign(steps_, HostTensor::scalar(steps_taken));
    RunResult result = run_kernels({}, {update_}, feeds_, {.threads = threads, .address_seed = 11});
    for (Value value : {variable_, m_, v_}) feeds_.insert_or_assign(value, std::move(result.variables.at(value)));
    step_reference(static_cast<double>(steps_taken) + 1);
  }

  void expect_near(Tolerance tolerance) const {
    EXPECT_TRUE(is_near(content(), wanted_, tolerance)) << "variable";
    EXPECT_TRUE(is_near(feeds_.at(m_), wanted_m_, tolerance)) << "m";
    EXPECT_TRUE(is_near(feeds_.at(v_), wanted_v_, tolerance)) << "v";
  }
  const HostTensor& content() const { return feeds_.at(variable_); }

 private:
  void step_reference(double t) {
    const std::vector<double> gradient = doubles_of(feeds_.at(gradient_));
    const double beta1 = options_.beta1, beta2 = options_.beta2;
    const double rate = learning_rate_ * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      wanted_m_[i] = beta1 * wanted_m_[i] + (1 - beta1) * gradient[i];
      wanted_v_[i] = beta2 * wanted_v_[i] + (1 - beta2) * gradient[i] * gradient[i];
      wanted_[i] -= rate * wanted_m_[i] / (std::sqrt(wanted_v_[i]) + options_.epsilon);
    }
  }

  Shape shape_;
  AdamOptions options_;
  float learning_rate_;
  Graph graph_;
  Value variable_, m_, v_, gradient_, steps_;
  Operation update_;
  Feeds feeds_;
  std::vector<double> wanted_, wanted_m_, wanted_v_;
};

TEST(ApplyAdam, MatchesTheReferenceOverSeveralSteps) {
  for (const Shape& shape : kShapes) {
    for (const AdamOptions& options : {AdamOptions{}, AdamOptions{.beta1 = 0.5F, .beta2 = 0.9F, .epsilon = 1e-3F}}) {
      AdamRun run(shape, options, 0.01F);
      for (std::int64_t steps = 0; steps < 6; ++steps) run.step(steps);
      run.expect_near({.relative = 8, .absolute = 8});
    }
  }
}

TEST(ApplyAdam, MatchesTheReferenceFarIntoTraining) {
  AdamRun run({1001}, {}, 0.01F);
  run.step(100'000'000'000);
  run.expect_near({.relative = 8, .absolute = 8});
}

TEST(ApplyAdam, TheFirstStepIsTheLearningRateWhateverTheGradient) {
  AdamRun run({513}, {.epsilon = 0}, 0.5F);
  const std::vector<double> before = doubles_of(run.content());
  run.step(0);
  const std::vector<double> after = doubles_of(run.content());
  // Element 0 has the gradient sin(0) = 0.
  for (std::size_t i = 1; i < before.size(); ++i) ASSERT_NEAR(std::abs(after[i] - before[i]), 0.5, 1e-5);
}

TEST(Updates, BitsDoNotDependOnTheThreadCount) {
  const auto trained = [](int threads) {
    AdamRun run({40003}, {}, 0.1F);
    for (std::int64_t steps = 0; steps < 3; ++steps) run.step(steps, threads);
    return run.content().clone();
  };
  const HostTensor one = trained(1);
  for (int threads : {2, 3, 7}) EXPECT_TRUE(same_bits(one, trained(threads)));
}

}  // namespace
}  // namespace sectionflow

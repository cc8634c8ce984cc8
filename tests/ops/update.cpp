#include "graph/ops/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <string>

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

const Shape kVariableShapes[] = {{}, {7}, {0, 3}, {3, 5, 2}, {40003}};

TEST(Assign, ReplacesTheContentInEveryDtype) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::i32, Dtype::i64, Dtype::u8, Dtype::boolean}) {
    for (const Shape& shape : kVariableShapes) {
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
  for (const Shape& shape : kVariableShapes) {
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
  for (const Shape& shape : kVariableShapes) {
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
  for (const Shape& shape : kVariableShapes) {
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
  for (const Shape& shape : kVariableShapes) {
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

/// An update with slots, on kernels and in double.
struct UpdateCase {
  std::string name;
  int num_slots;
  /// The update of variables[0], with the slots behind it.
  std::function<Operation(const std::vector<Value>& variables, Value gradient, Value rate, Value steps)> build;
  /// One element: state[0] is the variable's, then the slots'.
  std::function<void(std::vector<double>& state, double g, double rate, double t)> step;
  friend void PrintTo(const UpdateCase& each, std::ostream* stream) { *stream << each.name; }
};

std::vector<UpdateCase> update_cases() {
  using Values = const std::vector<Value>&;
  std::vector<UpdateCase> cases;
  for (bool nesterov : {false, true}) {
    cases.push_back({nesterov ? "nesterov" : "momentum", 1,
                     [=](Values v, Value g, Value rate, Value) {
                       return apply_momentum(v[0], v[1], g, rate, {.momentum = 0.8F, .nesterov = nesterov});
                     },
                     [=](std::vector<double>& s, double g, double rate, double) {
                       s[1] = double{0.8F} * s[1] + g;
                       s[0] -= rate * (nesterov ? g + double{0.8F} * s[1] : s[1]);
                     }});
  }
  cases.push_back(
      {"adagrad", 1,
       [](Values v, Value g, Value rate, Value) { return apply_adagrad(v[0], v[1], g, rate, {.epsilon = 1e-3F}); },
       [](std::vector<double>& s, double g, double rate, double) {
         s[1] += g * g;
         s[0] -= rate * g / (std::sqrt(s[1]) + 1e-3F);
       }});
  cases.push_back({"rms_prop", 1,
                   [](Values v, Value g, Value rate, Value) {
                     return apply_rms_prop(v[0], v[1], g, rate, {.decay = 0.9F, .epsilon = 1e-3F});
                   },
                   [](std::vector<double>& s, double g, double rate, double) {
                     s[1] = double{0.9F} * s[1] + (1 - double{0.9F}) * g * g;
                     s[0] -= rate * g / (std::sqrt(s[1]) + 1e-3F);
                   }});
  cases.push_back({"lion", 1,
                   [](Values v, Value g, Value rate, Value) {
                     return apply_lion(v[0], v[1], g, rate, {.beta1 = 0.8F, .beta2 = 0.95F, .weight_decay = 0.5F});
                   },
                   [](std::vector<double>& s, double g, double rate, double) {
                     const double beta1 = 0.8F, beta2 = 0.95F, mixture = beta1 * s[1] + (1 - beta1) * g;
                     s[0] -= rate * (0.5 * s[0] + (mixture > 0 ? 1 : mixture < 0 ? -1 : 0));
                     s[1] = beta2 * s[1] + (1 - beta2) * g;
                   }});
  // A large epsilon shows where it stands: beside the corrected root.
  cases.push_back({"adam_w", 2,
                   [](Values v, Value g, Value rate, Value steps) {
                     return apply_adam_w(v[0], v[1], v[2], g, rate, steps,
                                         {.beta1 = 0.8F, .beta2 = 0.95F, .epsilon = 0.25F, .weight_decay = 0.5F});
                   },
                   [](std::vector<double>& s, double g, double rate, double t) {
                     const double beta1 = 0.8F, beta2 = 0.95F;
                     s[0] -= rate * 0.5 * s[0];
                     s[1] = beta1 * s[1] + (1 - beta1) * g;
                     s[2] = beta2 * s[2] + (1 - beta2) * g * g;
                     const double root = std::sqrt(s[2] / (1 - std::pow(beta2, t)));
                     s[0] -= rate * s[1] / (1 - std::pow(beta1, t)) / (root + 0.25);
                   }});
  return cases;
}

class UpdatesWithSlots : public testing::TestWithParam<UpdateCase> {
 protected:
  /// The variable and its slots after some steps.
  static std::vector<HostTensor> train(const Shape& shape, int threads) {
    const UpdateCase& c = GetParam();
    Graph graph;
    std::vector<Value> variables;
    for (int i = 0; i <= c.num_slots; ++i) variables.push_back(new_variable(graph, "w", shape));
    const Value gradient = placeholder(graph, "gradient", shape), steps = new_variable(graph, "steps", {}, Dtype::i64);
    const Operation update = c.build(variables, gradient, constant(graph, kRate), steps);
    Feeds feeds;
    for (Value variable : variables) feeds.emplace(variable, HostTensor(variable.type()));
    feeds.insert_or_assign(variables[0], wavy(shape, 1));
    for (int t = 1; t <= kSteps; ++t) {
      feeds.insert_or_assign(gradient, wavy(shape, 2.3F * static_cast<float>(t)));
      feeds.insert_or_assign(steps, HostTensor::scalar<std::int64_t>(t - 1));
      RunResult result = run_kernels({}, {update}, feeds, {.threads = threads, .address_seed = 11});
      for (Value variable : variables) feeds.insert_or_assign(variable, std::move(result.variables.at(variable)));
    }
    std::vector<HostTensor> state;
    for (Value variable : variables) state.push_back(std::move(feeds.at(variable)));
    return state;
  }

  static constexpr float kRate = 0.0625F;
  static constexpr int kSteps = 6;
};

TEST_P(UpdatesWithSlots, MatchTheReferenceOverSeveralSteps) {
  for (const Shape& shape : kVariableShapes) {
    const auto state = train(shape, 2);
    std::vector<std::vector<double>> wanted(state.size(), std::vector<double>(state[0].values<float>().size()));
    wanted[0] = doubles_of(wavy(shape, 1));
    for (int t = 1; t <= kSteps; ++t) {
      const auto gradient = doubles_of(wavy(shape, 2.3F * static_cast<float>(t)));
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        std::vector<double> element;
        for (const auto& tensor : wanted) element.push_back(tensor[i]);
        GetParam().step(element, gradient[i], kRate, t);
        for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k][i] = element[k];
      }
    }
    for (std::size_t k = 0; k < state.size(); ++k) {
      EXPECT_TRUE(is_near(state[k], wanted[k], {.relative = 8, .absolute = 8})) << shape.text() << ", variable " << k;
    }
  }
}

TEST_P(UpdatesWithSlots, BitsDoNotDependOnTheThreadCount) {
  const auto one = train({40003}, 1);
  for (int threads : {2, 3, 7}) {
    const auto many = train({40003}, threads);
    for (std::size_t k = 0; k < one.size(); ++k) EXPECT_TRUE(same_bits(one[k], many[k])) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, UpdatesWithSlots, testing::ValuesIn(update_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(ApplyLion, StaysWhereNothingPullsAndShowsWhatIsNoNumber) {
  Graph graph;
  const Value w = new_variable(graph, "w", {3}), m = new_variable(graph, "m", {3}), g = placeholder(graph, "g", {3});
  Feeds feeds;
  feeds.emplace(w, HostTensor::of<float>({3}, {2, 2, 2}));
  feeds.emplace(m, HostTensor(Dtype::f32, {3}));
  feeds.emplace(g, HostTensor::of<float>({3}, {0, 1e-30F, std::nanf("")}));
  const RunResult result = run_kernels({}, {apply_lion(w, m, g, constant(graph, 0.5F))}, feeds);
  const auto stepped = result.variables.at(w).values<float>();
  EXPECT_EQ(stepped[0], 2);
  EXPECT_EQ(stepped[1], 1.5F);
  EXPECT_TRUE(std::isnan(stepped[2]));
}

TEST(Updates, NumbersOutsideTheirRangesAreRefusedAndAddNothing) {
  Graph graph;
  const Value w = new_variable(graph, "w", {2}), slot = new_variable(graph, "slot", {2});
  const Value other = new_variable(graph, "other", {2}), g = placeholder(graph, "g", {2});
  const Value rate = constant(graph, 0.1F), steps = new_variable(graph, "steps", {}, Dtype::i64);
  const int before = graph.num_nodes();
  EXPECT_THROW(apply_momentum(w, slot, g, rate, {.momentum = -0.1F}), ArgumentError);
  EXPECT_THROW(apply_momentum(w, slot, g, rate, {.momentum = NAN}), ArgumentError);
  EXPECT_THROW(apply_momentum(w, slot, g, rate, {.momentum = 0, .nesterov = true}), ArgumentError);
  EXPECT_THROW(apply_adagrad(w, slot, g, rate, {.epsilon = -1}), ArgumentError);
  EXPECT_THROW(apply_rms_prop(w, slot, g, rate, {.decay = 1}), ArgumentError);
  EXPECT_THROW(apply_rms_prop(w, slot, g, rate, {.epsilon = INFINITY}), ArgumentError);
  EXPECT_THROW(apply_adam(w, slot, other, g, rate, steps, {.beta1 = 1}), ArgumentError);
  EXPECT_THROW(apply_adam_w(w, slot, other, g, rate, steps, {.beta2 = -0.5F}), ArgumentError);
  EXPECT_THROW(apply_adam_w(w, slot, other, g, rate, steps, {.weight_decay = -0.5F}), ArgumentError);
  EXPECT_THROW(apply_lion(w, slot, g, rate, {.beta1 = 1}), ArgumentError);
  EXPECT_THROW(apply_lion(w, slot, g, rate, {.beta2 = -0.5F}), ArgumentError);
  EXPECT_THROW(apply_lion(w, slot, g, rate, {.weight_decay = NAN}), ArgumentError);
  EXPECT_THROW(apply_momentum(w, g, g, rate), ArgumentError) << "a slot must be a variable";
  EXPECT_THROW(apply_adagrad(w, new_variable(graph, "wide", {3}), g, rate), ShapeError);
  EXPECT_EQ(graph.num_nodes(), before + 3) << "'wide' with its initial value and initialiser";
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

// What assert_that looks at, when, and what it tells.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fit/fit_budget.h"
#include "fit/insert_swaps.h"
#include "runtime/engine.h"
#include "sectionflow.h"
#include "tests/support/emulated_device.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow::assertion_tests {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A root in the first of two sections, of what is asserted to be positive.
struct Root {
  explicit Root(const SessionOptions& options = {.device_memory = 4_MiB, .threads = 2, .check_schedules = true}) {
    {
      const auto section = manager.new_section("roots");
      const Value product = x * w;
      y = tanh(sqrt(assert_that(product, x > 0.0F, {.text = "x is positive", .shown = {x, w}, .first = 2})));
      for (int i = 0; i < 4; ++i) y = exp(tanh(y) * 0.5F);
    }
    {
      const auto section = manager.new_section("loss");
      loss = mean(square(y));
    }
    manager.add_training_ops(Sgd{.learning_rate = 0.01}, loss);
    manager.prepare_training();
    session.emplace(graph, options, Where::here());
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  /// A step of training, whole or by sections, whose last number may be none that is asserted.
  float step(bool holds, bool in_sections) {
    HostTensor numbers(Dtype::f32, {kRows, 3});
    float next = 0;
    for (float& number : numbers.values<float>()) number = next += 1;
    if (!holds) numbers.values<float>().back() = -6;
    const Feeds feeds = {{x, numbers}};
    return (in_sections ? manager.run_full_cycle(*session, {loss}, feeds)
                        : session->run({loss}, feeds, {.targets = manager.training_operations()}))[0]
        .item<float>();
  }
  ProgramReport plan(bool in_sections) {
    const FeedTypes types = {{x, Shape{kRows, 3}}};
    return in_sections ? manager.plan(*session, {loss}, types)
                       : session->plan({loss}, types, {.targets = manager.training_operations()});
  }
  /// That an assertion is found, that it has changed nothing, and that training goes on.
  void expect_found(const std::vector<bool>& ways = {false, true}) {
    session->initialize();
    for (const bool in_sections : ways) {
      (void)step(true, in_sections);
      const HostTensor before = session->read(w);
      const std::uint64_t cycles = session->completed_cycles();
      EXPECT_THAT(whole_error_text<ArgumentError>([&] { (void)step(false, in_sections); }),
                  AllOf(StartsWith("SF-E312"), HasSubstr("assert_that 'assert_that' does not hold: x is positive: "),
                        HasSubstr("element [255,2] of its condition 'greater' bool[256,3] is false"),
                        HasSubstr(in_sections ? "forward 0" : "whole graph"), HasSubstr("section 0 'roots'"),
                        HasSubstr("assertions.cpp:"), HasSubstr("'x' f32[256,3] = 1, 2, ...; 'w' f32[3] = ")));
      EXPECT_TRUE(bitwise_equal(session->read(w), before));
      EXPECT_EQ(session->completed_cycles(), cycles);
      EXPECT_TRUE(std::isfinite(step(true, in_sections)));
    }
  }

  static constexpr std::int64_t kRows = 256;
  Graph graph;
  GraphSectionManager manager{graph};
  Value x = placeholder(graph, "x", {kDynamic, 3}), w = variable("w", fill(graph, {3}, 4));
  Value y, loss;
  std::optional<Session> session;
};

TEST(Assertions, TellTextPlaceElementAndWhatTheyShowBeforeAnythingHasChanged) {
  Root().expect_found();
}

TEST(Assertions, AreFoundWherePlansFitABudgetAndTensorsAreOffloaded) {
  const std::size_t all = Root().plan(false).planned_peak_bytes;
  const SessionOptions options{.device_memory = all * 4 / 5, .threads = 1, .check_schedules = true};
  Root fitted(options);
  fit_budget(*fitted.session, {.may_swap = false});
  EXPECT_LT(fitted.plan(false).planned_peak_bytes, all);
  fitted.expect_found({false});
  Root swapped(options);
  insert_swaps(*swapped.session);
  EXPECT_GT(swapped.plan(false).bytes_out, 0U);
  swapped.expect_found({false});
}

TEST(Assertions, AreLookedAtOnceInACycleThatComputesThemAgain) {
  Root root;
  root.session->initialize();
  (void)root.step(true, true);
  const Program& program = *engine(*root.session).latest_program();
  EXPECT_GT(program.report.recomputed_operations, 0);
  EXPECT_EQ(program.digest.assertions.size(), 1U);
}

TEST(Assertions, ChangeNoBit) {
  for (const bool asserts : {false, true}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {4});
    const Value y = exp(asserts ? assert_that(x, x < 9.0F) : x);
    const Value dx = gradients(reduce_sum(y), {x})[0];
    Session session(graph, {.threads = 1});
    session.initialize();
    const HostTensor fed = HostTensor::of<float>({4}, {1, 2, 3, 4});
    const auto found = session.run({y, dx}, {{x, fed}});
    EXPECT_TRUE(bitwise_equal(found[0], found[1]));
    EXPECT_EQ(found[0].values<float>()[0], std::exp(1.0F));
  }
}

TEST(Assertions, FindTheFirstElementWhereverItLies) {
  Graph graph;
  const Value holds = placeholder(graph, "holds", {kDynamic}, Dtype::boolean), x = placeholder(graph, "x", {});
  const Value y = assert_that(x, holds);
  Session session(graph, {.device_memory = 8_MiB, .threads = 2});
  session.initialize();
  HostTensor all(Dtype::boolean, {200001});
  for (const std::size_t place : {0U, 4095U, 99999U, 200000U}) {
    std::fill(all.bytes(), all.bytes() + all.num_bytes(), std::byte{1});
    all.bytes()[place] = all.bytes()[200000] = std::byte{0};
    EXPECT_THAT(whole_error_text<ArgumentError>([&] {
                  session.run({y}, {{holds, all}, {x, 1.0F}});
                }),
                HasSubstr(text_of("element [", place, "]")));
  }
  const HostTensor none(Dtype::boolean, {0});
  EXPECT_EQ(session.run({y}, {{holds, none}, {x, 2.0F}})[0].item<float>(), 2.0F);
}

TEST(Assertions, OfABranchThatIsNotTakenAreNotLookedAt) {
  Graph graph;
  const Value flag = placeholder(graph, "flag", {}, Dtype::boolean), x = placeholder(graph, "x", {});
  const Value y = cond(
      flag, [&] { return assert_that(x, x > 0.0F); }, [&] { return x; });
  Session session(graph, {.threads = 1});
  session.initialize();
  const std::vector<Operation> targets = {Operation(y)};
  session.run({{x, -1.0F}, {flag, false}}, {.targets = targets});
  EXPECT_THROW(session.run({{x, -1.0F}, {flag, true}}, {.targets = targets}), ArgumentError);
}

TEST(Assertions, EndTheFitOfATrainer) {
  for (const bool in_sections : {false, true}) {
    testing_support::SmallModel model(in_sections);
    Session session(model.graph, testing_support::small_session());
    TrainerOptions options = model.options();
    options.loss = assert_that(model.loss, model.loss < 0.0F, {.text = "the loss is negative"});
    session.initialize();
    options.metrics = {{"asserted", options.loss}};
    options.loss = model.loss;
    if (in_sections) model.manager->prepare_training();
    Trainer trainer =
        in_sections ? Trainer(session, *model.manager, options) : Trainer(session, model.training, options);
    LearningRate rate(model.rate, constant_rate(0.01));
    FunctionBatches source(
        [&](std::int64_t pass, std::int64_t batch) { return testing_support::small_batch(pass, batch); });
    EXPECT_THAT(whole_error_text<ArgumentError>([&] { trainer.fit(source, {.max_epochs = 1, .callbacks = {&rate}}); }),
                AllOf(StartsWith("SF-E312"), HasSubstr("the loss is negative")));
    EXPECT_EQ(trainer.step(), 0);
  }
}

TEST(Assertions, WorkOnAGpuWhoseKernelsRunBehindTheCaller) {
  const testing_support::EmulatedCuda cuda_device;
  Root({.device = cuda(0), .device_memory = 4_MiB}).expect_found();
}

TEST(Assertions, RefuseWhatIsNoConditionAndTooMuchToShow) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const int before = graph.num_nodes();
  const auto error_of = [&](Value condition, const AssertionOptions& options) {
    return whole_error_text<ArgumentError>([&] { (void)assert_that(x, condition, options); });
  };
  EXPECT_THAT(error_of(x, {}), HasSubstr("the condition is f32[2]; wanted bool"));
  const Value holds = placeholder(graph, "holds", {}, Dtype::boolean);
  EXPECT_THAT(error_of(holds, {.first = -1}), HasSubstr("first is -1"));
  EXPECT_THAT(error_of(holds, {.shown = std::vector<Value>(9, x)}), HasSubstr("shows 9 values; wanted 8 at most"));
  EXPECT_EQ(graph.num_nodes(), before + 1);
}

}  // namespace
}  // namespace sectionflow::assertion_tests

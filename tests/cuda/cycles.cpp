// Small full cycles on a GPU: the machine's first where SECTIONFLOW_TEST_DEVICE is `cuda`, otherwise an emulated
// one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "base/bytes.h"
#include "compare/compare_strategies.h"
#include "compare/contender.h"
#include "runtime/engine.h"
#include "runtime/next_feeds.h"
#include "tests/cuda/lent_training.h"
#include "tests/support/emulated_device.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_model.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using testing::HasSubstr;
using testing::Not;

class Cycles : public testing::Test {
 protected:
  Cycles() {
    if (tests_run_on_cpu()) emulated_.emplace(EmulatedOptions{.kernels = EmulatedKernels::cpu, .context = kContext});
  }
  static constexpr std::size_t kContext = 40_MiB;
  static CompareOptions options(SessionOptions session) {
    session.device = cuda();
    CompareOptions result{.steps = 6, .session = session};
    result.batch = [](std::int64_t step) { return tiny_batch(step); };
    return result;
  }
  static void expect_the_same(const Comparison& comparison) {
    for (const StrategyResult& result : comparison.strategies) {
      EXPECT_TRUE(result.fits) << result.name << ": " << result.misfit;
      EXPECT_TRUE(result.identical) << result.name << ": " << result.difference;
      EXPECT_EQ(result.measured_peak_bytes, result.planned_peak_bytes) << result.name;
    }
  }

 private:
  std::optional<EmulatedCuda> emulated_;
};

TEST_F(Cycles, StrategiesGiveTheSameBytes) {
  CompareOptions comparison = options({.device_memory = 8_MiB});
  comparison.reference = tiny_strategy("whole", 0);
  for (const bool records : {true, false}) {
    comparison.session.record_cycles = records;
    expect_the_same(compare_strategies({tiny_strategy("two", 2), tiny_strategy("three", 3)}, comparison));
  }
}

TEST_F(Cycles, StrategiesWithoutABudgetShareTheGpu) {
  const Comparison comparison = compare_strategies({tiny_strategy("whole", 0), tiny_strategy("three", 3)}, options({}));
  expect_the_same(comparison);
  EXPECT_LT(comparison.strategies[1].planned_peak_bytes, comparison.strategies[0].planned_peak_bytes);
}

TEST_F(Cycles, VariablesInPinnedMemoryGiveTheSameBytes) {
  CompareOptions comparison = options({.device_memory = 8_MiB});
  for (const bool swaps_variables : {false, true}) {
    comparison.session.swap_variables = swaps_variables;
    expect_the_same(compare_strategies({tiny_strategy("whole", 0), tiny_strategy("three", 3)}, comparison));
  }
}

TEST_F(Cycles, FeedsCopiedAheadGiveTheSameBytes) {
  for (const bool records : {true, false}) {
    LentTraining ahead(true, {.device = cuda(), .record_cycles = records}), plain(true, {.device = cuda()});
    MadeBatches source, same;
    const FitOptions options{.steps = 8};
    const auto variables = ahead.trained_on(source, options);
    EXPECT_EQ(engine(*ahead.session).next_feeds().figures().arrived, 14U);
    // Without batches made before they are asked for, nothing can be copied ahead.
    struct Plain : BatchSource {
      explicit Plain(BatchSource& batches) : source(batches) {}
      std::optional<Example> next() override { return source.next(); }
      std::string position() const override { return source.position(); }
      void restore(const std::string& position) override { source.restore(position); }
      BatchSource& source;
    } as_asked(same);
    expect_same(variables, plain.trained_on(as_asked, options));
    EXPECT_EQ(engine(*plain.session).next_feeds().figures().copied, 0U);
  }
}

TEST_F(Cycles, WhatTheContextTakesIsReportedBesideTheBudget) {
  Contender contender(tiny_strategy("whole", 0), {.device = cuda(), .device_memory = 8_MiB}, 6);
  Session& session = contender.session();
  const std::size_t at_start = session.statistics().context_bytes;
  EXPECT_GT(at_start, 0U);
  session.initialize();
  std::vector<std::size_t> seen;
  for (int step = 0; step < 4; ++step) {
    const Batch batch = tiny_batch(step);
    (void)contender.step(batch);
    const ProgramReport& report = engine(session).latest_program()->report;
    EXPECT_EQ(report.context_bytes, session.statistics().context_bytes);
    EXPECT_THAT(report.text(), HasSubstr(text_of("  context:    ", bytes_text(report.context_bytes), " (",
                                                 report.context_bytes, " bytes) beside the budget\n")));
    EXPECT_EQ(report.planned_peak_bytes, session.statistics().planned_peak_bytes) << "it is none of the plan";
    seen.push_back(report.context_bytes);
  }
  session.clear_statistics();
  EXPECT_EQ(session.statistics().context_bytes, seen.back());
  // A GPU is asked when the program is first executed and when it is recorded, and never again.
  EXPECT_EQ(seen[1], seen[3]);
  if (tests_run_on_a_gpu()) return;
  EXPECT_EQ(at_start, kContext);
  EXPECT_EQ(seen[0], kContext);
  EXPECT_EQ(seen[1], 2 * kContext) << "the recording's";
  EXPECT_EQ(session.context_bytes(), 2 * kContext);
}

TEST_F(Cycles, AComparisonTellsTheContextOnceForAllStrategies) {
  const Comparison comparison =
      compare_strategies({tiny_strategy("whole", 0), tiny_strategy("two", 2)}, options({.device_memory = 8_MiB}));
  EXPECT_GT(comparison.context_bytes, 0U);
  EXPECT_THAT(comparison.limits(),
              HasSubstr(text_of("device memory 8.00 MiB and ", bytes_text(comparison.context_bytes),
                                " for context and libraries, host")));
  EXPECT_THAT(comparison.json(), HasSubstr(text_of("\"context_bytes\": ", comparison.context_bytes)));
}

TEST(Context, OfTheCpuIsNothingAndIsNotShown) {
  Contender contender(tiny_strategy("whole", 0), {.device_memory = 8_MiB}, 6);
  contender.session().initialize();
  const Batch batch = tiny_batch(0);
  (void)contender.step(batch);
  EXPECT_EQ(contender.session().context_bytes(), 0U);
  EXPECT_EQ(engine(contender.session()).latest_program()->report.context_bytes, 0U);
  EXPECT_THAT(engine(contender.session()).latest_program()->report.text(), Not(HasSubstr("context")));
  const Comparison none{};
  EXPECT_THAT(none.limits() + none.json(), Not(HasSubstr("context")));
}

}  // namespace
}  // namespace sectionflow

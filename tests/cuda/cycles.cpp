// Small full cycles on a GPU: the machine's first where SECTIONFLOW_TEST_DEVICE is `cuda`, otherwise one that the host
// plays.

#include <gtest/gtest.h>

#include <optional>

#include "base/bytes.h"
#include "tests/support/emulated_device.h"
#include "tests/support/test_device.h"
#include "tests/support/tiny_model.h"
#include "train/compare_strategies.h"

namespace sectionflow {
namespace {

using namespace testing_support;

class Cycles : public testing::Test {
 protected:
  Cycles() {
    if (tests_run_on_cpu()) played_.emplace(EmulatedOptions{.kernels = EmulatedKernels::cpu});
  }
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
  std::optional<EmulatedCuda> played_;
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

TEST_F(Cycles, VariablesAtHomeInPinnedMemoryGiveTheSameBytes) {
  CompareOptions comparison = options({.device_memory = 8_MiB});
  for (const bool travels : {false, true}) {
    comparison.session.swap_variables = travels;
    expect_the_same(compare_strategies({tiny_strategy("whole", 0), tiny_strategy("three", 3)}, comparison));
  }
}

}  // namespace
}  // namespace sectionflow

// Programs that are planned again beside variables that may lie on disk, where several plans are compared.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fit/replan_case.h"
#include "tests/support/log_lines.h"

namespace sectionflow::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing_support::LogLines;

SessionOptions with_a_disk() {
  SessionOptions options = tight(case_of({}), {"",
                                               {.host_memory = 16_MiB, .disk = 64_MiB, .swap_variables = true},
                                               {.profile = quick_link(), .effort = 50'000}});
  options.check_schedules = true;
  return options;
}

TEST(ReplanBesideDiskHomes, ThatIsStoppedAnywhereKeepsThePlanAndIsMadeLater) {
  std::int64_t left = -1;  // questions until planning is stopped
  FitBudgetOptions fit = on_drift();
  fit.stop = [&] { return left >= 0 && left-- == 0; };
  Drifting training(whole_step, case_of({}), fit, with_a_disk());
  training.drift();
  LogLines log;
  for (std::int64_t questions = 0; replanned(training.fitted) == 0; questions += 1 + questions / 2) {
    left = questions;
    const std::string before = plan_of(training.fitted.session()).text();
    training.train(1, 1.2);
    if (replanned(training.fitted) == 0) {
      ASSERT_EQ(plan_of(training.fitted.session()).text(), before);
    }
    ASSERT_FALSE(HasFatalFailure());
    if (left >= 0) break;
  }
  left = -1;
  EXPECT_EQ(replanned(training.fitted), 1);
  EXPECT_THAT(log.lines, Contains(HasSubstr("goes on as it was: fit_budget: planning was stopped")));
  EXPECT_THAT(log.lines, Contains(HasSubstr("is not planned again, since that was not finished")));
  EXPECT_THAT(log.lines, Contains(HasSubstr("; 1 of at most 6"))) << "those that were stopped do not count";
  EXPECT_THAT(training.fitted.plan().notes, Contains(HasSubstr("fit_budget: planned again after")));
  training.train(2, 1.2);
  EXPECT_EQ(replanned(training.fitted), 1);
}

}  // namespace
}  // namespace sectionflow::testing

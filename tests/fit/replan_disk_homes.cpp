// Programs that are planned again beside variables that may lie on disk, where several plans are compared.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "fit/plan_content.h"
#include "runtime/swap_file.h"
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

/// Of what a whole step takes four fifths, where little but a disk is beside it.
SessionOptions beside_a_disk() {
  SessionOptions options{.host_memory = 20'000, .disk = 64_MiB, .copy_threads = true};
  options.check_schedules = true;
  options.device_memory = Fitted(case_of({}), options, on_drift()).plan().planned_peak_bytes / 5 * 4;
  return options;
}

TEST(ReplanOntoADisk, ThatIsFullIsCountedAndTheProgramGoesOnAsItWas) {
  const SessionOptions budgets = beside_a_disk();
  FitBudgetOptions fit = on_drift();
  fit.profile->link_out = fit.profile->link_in = 1e9;
  fit.profile->disk_out = fit.profile->disk_in = 3e8;
  FitBudgetOptions again = fit;
  again.may_swap = false;
  Fitted by_replays(case_of({}), budgets, again);
  ASSERT_TRUE(by_replays.plan().fits);
  fit.plan = plan_of(by_replays.session());
  Drifting training(whole_step, case_of({}), fit, budgets);
  // Operations have come to take long, and copies next to nothing.
  double seconds = 1;
  engine(training.fitted.session()).set_times_editor([&](const Program& program, ExecutionTimes& times) {
    times.seconds = seconds;
    for (std::size_t i = 0; i < times.steps.size(); ++i) {
      times.steps[i] = is_transfer(program.schedule.steps[i].kind) ? 1e-5 : 2e-3;
    }
  });
  const auto train = [&](int steps, double each) {
    seconds = each;
    training.train(steps, each);
  };
  bool is_full = true;
  DiskCalls calls;
  calls.fallocate = [&](int file, int mode, off_t offset, off_t bytes) {
    errno = ENOSPC;
    return is_full ? -1 : ::fallocate(file, mode, offset, bytes);
  };
  engine(training.fitted.session()).set_disk_calls(calls);
  LogLines log;
  const auto instructions = [&] { return plan_of(training.fitted.session()).content()->programs.at(0).instructions; };
  train(kBegun, 1);
  const auto before = instructions();
  train(kTimed - kBegun + 5, 1.2);
  EXPECT_EQ(replanned(training.fitted), 0);
  EXPECT_THAT(log.lines, Contains(HasSubstr("a program that was planned again for it goes on as it was")));
  EXPECT_TRUE(instructions() == before);
  EXPECT_EQ(training.fitted.plan().disk_peak_bytes, 0U);
  is_full = false;
  train(kBegun, 1.2);
  train(2 * ProgramFitter::kStepsInARow + 2, 2);
  EXPECT_EQ(replanned(training.fitted), 1);
  EXPECT_GT(training.fitted.plan().disk_peak_bytes, 0U);
}

}  // namespace
}  // namespace sectionflow::testing

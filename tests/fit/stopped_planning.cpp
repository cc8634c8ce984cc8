// Planning that is ended from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/fit/plan_case.h"

namespace sectionflow::testing {
namespace {

TEST(StoppedPlanning, LeavesNoPlanAndMayBeginAgain) {
  bool is_stopped = true;
  int asked = 0;
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.stop = [&] {
    ++asked;
    return is_stopped;
  };
  Fitted fitted(case_of({}), whole_plan().budgets, fit);
  try {
    fitted.plan();
    FAIL() << "nothing has stopped it";
  } catch (const StoppedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::planning_stopped);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("stopped from outside"));
  }
  EXPECT_EQ(asked, 1) << "it ends at once";
  EXPECT_EQ(plan_of(fitted.session()).num_programs(), 0);
  is_stopped = false;
  EXPECT_TRUE(fitted.plan().fits);
  EXPECT_GT(asked, 20) << "between two budgets it is asked too";
}

TEST(StoppedPlanning, IsNotAskedForWhatFitsAsItIs) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.stop = [] { return true; };
  EXPECT_TRUE(Fitted(case_of({}), checked(way_of_both().session, 1_GiB), fit).plan().fits);
}

}  // namespace
}  // namespace sectionflow::testing

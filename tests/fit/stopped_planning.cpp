// Planning that is ended from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/fit/parts_case.h"
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

TEST(StoppedPlanning, OfOffloadsAloneIsAskedBetweenTheirTrials) {
  const PlanWay& way = plan_ways()[1];
  ASSERT_FALSE(way.fit.may_recompute);
  const SessionOptions budgets = tight(case_of({}), way);
  int asked = 0, most = 0;
  FitBudgetOptions fit = way.fit;
  fit.stop = [&] { return ++asked == most; };
  EXPECT_TRUE(Fitted(case_of({}), budgets, fit).plan().fits);
  const int in_all = asked;
  ASSERT_GT(in_all, 3) << "not at its ends alone";
  for (most = 1; most <= in_all; ++most) {
    asked = 0;
    EXPECT_THROW(Fitted(case_of({}), budgets, fit).plan(), StoppedError) << "at question " << most << " of " << in_all;
    EXPECT_EQ(asked, most) << "nothing goes on behind it";
  }
}

TEST(StoppedPlanning, InPartsIsAskedForEachNumberOfParts) {
  // Twice the same, but for whether chains may run in parts.
  const auto asked_with = [](bool may_split) {
    int asked = 0;
    FitBudgetOptions fit = plan_ways()[1].fit;
    fit.may_split = may_split;
    fit.stop = [&] {
      ++asked;
      return false;
    };
    (void)Fitted(concatenation(), checked(plan_ways()[1].session, 1), fit).plan();
    return asked;
  };
  EXPECT_GT(asked_with(true), asked_with(false));
}

TEST(StoppedPlanning, IsNotAskedForWhatFitsAsItIs) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.stop = [] { return true; };
  EXPECT_TRUE(Fitted(case_of({}), checked(way_of_both().session, 1_GiB), fit).plan().fits);
}

}  // namespace
}  // namespace sectionflow::testing

// Plans in files and checkpoints whose operations run in parts: who has written them changes no bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <memory>
#include <random>

#include "base/error.h"
#include "fit/program_fitter.h"
#include "tests/fit/parts_case.h"
#include "tests/fit/plan_edits.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// Trains by a plan in the memory that it was made for.
TrainingRecord trained_by(const std::string& plan) {
  static const std::size_t least = least_in_parts(concatenation(), by_recomputing());
  FitBudgetOptions fit = by_recomputing();
  fit.effort = std::int64_t{1} << 40;
  fit.plan = FitPlan::from_text(plan, "the plan: ");
  return record_training(concatenation(), How::whole, training_in(least, fit));
}

TEST(PlansInParts, ThatAreSavedGiveTheSameBits) {
  PlanJson plan = PlanJson::parse(plan_in_parts());
  EXPECT_THAT(plan["programs"].dump(), HasSubstr("run in "));
  const TrainingRecord plain = record_training(concatenation(), How::whole, {.steps = 3, .threads = 1});
  const TrainingRecord planned = trained_by(plan_in_parts());
  EXPECT_EQ(first_difference(plain, planned), "");
  EXPECT_THAT(planned.complaints, IsEmpty());
}

/// The plan with each of its instructions in parts as `change` makes it.
std::string with_parts(const std::function<void(PlanJson& instruction)>& change) {
  int changed = 0;
  const std::string text = edited(plan_in_parts(), [&](PlanJson& plan) {
    for (PlanJson& program : plan["programs"]) {
      for (PlanJson& instruction : program["instructions"]) {
        if (instruction.size() != 5) continue;
        change(instruction);
        ++changed;
      }
    }
  });
  EXPECT_GT(changed, 10);
  return text;
}

TEST(PlansInParts, ThatCannotBeAreRefused) {
  const auto expect_none = [](const std::function<void(PlanJson & instruction)>& change, const std::string& why) {
    const std::string text = with_parts(change);
    EXPECT_THAT([&] { trained_by(text); }, ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E102"), HasSubstr(why))))
        << why;
  };
  expect_none([](PlanJson& each) { each[4] = 1; }, "where a whole number");
  expect_none([](PlanJson& each) { each[4] = -2; }, "where a whole number");
  expect_none([](PlanJson& each) { each[3] = 1 << 20; }, "the part");
  expect_none([](PlanJson& each) { each[4] = 1 << 20; }, "part");
  expect_none([](PlanJson& each) { each[4] = each[4].get<int>() + 1; }, "part");
  expect_none([](PlanJson& each) { each[3] = 0; }, "part");
  expect_none([](PlanJson& each) { each[3] = each[4].get<int>() - 1; }, "runs in parts of which one is missing");
}

TEST(PlansInParts, ThatAreEditedAtRandomAreRefusedOrChangeNoBit) {
  const TrainingRecord plain = record_training(concatenation(), How::whole, {.steps = 3, .threads = 1});
  int refused = 0, taken = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(text_of("seed ", seed));
    std::mt19937_64 random(seed);
    const std::string text = edited(
        plan_in_parts(), [&](PlanJson& plan) { edit_instruction_at_random(step_of(plan)["instructions"], random); });
    try {
      EXPECT_EQ(first_difference(plain, trained_by(text)), "");
      ++taken;
    } catch (const DataError&) {
      ++refused;
    } catch (const BudgetError&) {
      ++refused;
    }
  }
  std::cout << refused << " refused, " << taken << " taken\n";
  EXPECT_GT(refused, 30);
  EXPECT_GT(taken, 3);
}

TEST(PlansInParts, ThatWereSearchedForOrGivenArePredictedTheSame) {
  const std::size_t least = least_in_parts(concatenation(), by_recomputing());
  FitBudgetOptions by_plan = by_recomputing();
  by_plan.plan = FitPlan::from_text(plan_in_parts(), "the plan: ");
  const double searched = Fitted(concatenation(), checked({}, least), by_recomputing()).plan().predicted_seconds;
  const double given = Fitted(concatenation(), checked({}, least), by_plan).plan().predicted_seconds;
  const double whole = Fitted(concatenation(), checked({}, 1_GiB), by_recomputing()).plan().predicted_seconds;
  EXPECT_GE(given, whole);
  EXPECT_NEAR(given, searched, 1e-9 * searched);
}

TEST(PlansInParts, OfCheckpointsAreNotGoneOnByWherePartsAreNotAllowed) {
  const std::size_t least = least_in_parts(concatenation(), by_recomputing());
  const auto restored = [&](const FitBudgetOptions& fit) {
    auto fitted = std::make_unique<Fitted>(concatenation(), checked({}, least), fit);
    fitted->session().initialize();
    engine(fitted->session()).give_back({{kKeptPlan, plan_in_parts()}}, "a checkpoint");
    return fitted;
  };
  const auto allowed = restored(by_recomputing());
  EXPECT_THAT(allowed->plan().notes, Contains(HasSubstr("fit_budget: by the plan in 'a checkpoint'")));
  EXPECT_GT(parts_of(allowed->session()), 1);
  const auto forbidden = restored(whole_only());
  EXPECT_THAT(forbidden->plan().notes, Contains(HasSubstr("runs in parts, which is not allowed")));
  EXPECT_EQ(parts_of(forbidden->session()), 1);
}

}  // namespace
}  // namespace sectionflow::testing

// Plans in checkpoints: who goes on from one plans without a search, or as if there were none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/tensor_hashes.h"
#include "fit/insert_swaps.h"
#include "fit/plan_content.h"
#include "fit/program_fitter.h"
#include "schedule/budget_advice.h"
#include "tests/fit/plan_case.h"
#include "tests/support/log_lines.h"
#include "tests/support/take_out_again.h"
#include "tests/support/temporary_folder.h"
#include "train/checkpoints.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing_support::LogLines;
using testing_support::take_out_again;

constexpr const char* kByRestored = "fit_budget: by the plan in '";

/// What a training has come to: its losses, and every variable.
struct End {
  std::vector<HostTensor> losses;
  std::map<std::string, HostTensor> variables;
};

std::string difference(const End& a, const End& b) {
  if (a.losses.size() != b.losses.size() || a.variables.size() != b.variables.size()) return "not as many";
  for (std::size_t i = 0; i < a.losses.size(); ++i)
    if (!bitwise_equal(a.losses[i], b.losses[i])) return text_of("loss ", i);
  for (const auto& [name, tensor] : a.variables)
    if (!bitwise_equal(tensor, b.variables.at(name))) return name;
  return "";
}

End trained(Fitted& fitted, std::int64_t first, std::int64_t last) {
  End end;
  for (std::int64_t step = first; step < last; ++step) end.losses.push_back(fitted.run(step));
  for (const Value& variable : fitted.graph().values(kVariables))
    end.variables[variable.name()] = fitted.session().read(variable);
  return end;
}

/// A training of four steps, with a checkpoint behind the second.
struct Saved {
  explicit Saved(const PlanWay& way = way_of_both(), const SessionOptions* given = nullptr)
      : budgets(given != nullptr ? *given : tight(case_of({}), way)) {
    Fitted fitted(case_of({}), budgets, few(way.fit));
    fitted.session().initialize();
    report = fitted.plan();
    (void)trained(fitted, 0, 2);
    EXPECT_TRUE(checkpoints().save(fitted.session(), {.step = 2}));
    plan = plan_of(fitted.session());
    end = trained(fitted, 2, 4);
  }
  Checkpoints checkpoints() const { return Checkpoints((folder.path() / "run").string()); }
  std::string name() const { return (folder.path() / "run" / "step-2").string(); }

  TemporaryFolder folder;
  SessionOptions budgets;
  ProgramReport report;
  FitPlan plan;
  End end;
};

const Saved& saved_by_both() {
  static const Saved saved(way_of_both(), &whole_plan().budgets);
  return saved;
}

/// Goes on from the checkpoint, or from texts in its place.
struct Resumed {
  Resumed(const Saved& from, const SessionOptions& options, const FitBudgetOptions& fit,
          const KeptTexts* instead = nullptr, const PlannedNet& net = {})
      : fitted(case_of(net), options, fit) {
    fitted.session().initialize();
    Checkpoints checkpoints = from.checkpoints();
    restored = checkpoints.restore_latest(fitted.session());
    if (instead != nullptr) engine(fitted.session()).give_back(*instead, from.name());
    report = fitted.plan();
    end = trained(fitted, 2, 4);
  }

  LogLines log;
  Fitted fitted;
  std::optional<RestoredCheckpoint> restored;
  ProgramReport report;
  End end;
};

class PlansInCheckpoints : public ::testing::TestWithParam<PlanWay> {};

TEST_P(PlansInCheckpoints, GiveTheBytesAndPeaksOfTheSearchWithoutOne) {
  const Saved saved(GetParam());
  ASSERT_TRUE(saved.report.fits);
  ASSERT_GT(saved.report.recomputed_operations + static_cast<int>(saved.report.bytes_out), 0);
  FitBudgetOptions fit = without_search(GetParam().fit, {});
  fit.profile.reset();
  Resumed resumed(saved, saved.budgets, fit);
  EXPECT_THAT(resumed.restored->checkpoint.kept, ElementsAre("plan"));
  EXPECT_EQ(resumed.restored->report.profile, GetParam().fit.profile);
  EXPECT_THAT(resumed.report.notes, Contains(HasSubstr(kByRestored + saved.name())));
  for (const std::string& note : saved.report.notes) EXPECT_THAT(resumed.report.notes, Contains(note));
  EXPECT_EQ(resumed.report.planned_peak_bytes, saved.report.planned_peak_bytes);
  EXPECT_EQ(resumed.report.host_peak_bytes, saved.report.host_peak_bytes);
  EXPECT_EQ(resumed.report.disk_peak_bytes, saved.report.disk_peak_bytes);
  EXPECT_EQ(resumed.report.num_steps, saved.report.num_steps);
  EXPECT_NEAR(resumed.report.predicted_seconds, saved.report.predicted_seconds, 1e-3 * saved.report.predicted_seconds);
  EXPECT_EQ(difference(saved.end, resumed.end), "");
  EXPECT_EQ(plan_of(resumed.fitted.session()).text(), saved.plan.text());
}

INSTANTIATE_TEST_SUITE_P(Ways, PlansInCheckpoints, ::testing::ValuesIn(plan_ways()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PlanInACheckpoint, ServesAFitBudgetBehindTheRestoring) {
  const Saved& saved = saved_by_both();
  Fitted fitted(case_of({}), saved.budgets);
  insert_swaps(fitted.session());
  fitted.session().initialize();
  Checkpoints checkpoints = saved.checkpoints();
  ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
  fit_budget(fitted.session(), without_search(way_of_both().fit, {}));
  EXPECT_THAT(fitted.plan().notes, Contains(HasSubstr(kByRestored)));
  EXPECT_EQ(difference(saved.end, trained(fitted, 2, 4)), "");
}

TEST(PlanInACheckpoint, GoesOnToTheNextOneThoughNothingOfItIsAskedFor) {
  const Saved& saved = saved_by_both();
  const TemporaryFolder folder;
  Checkpoints next((folder.path() / "next").string());
  {
    Fitted fitted(case_of({}), saved.budgets, without_search(way_of_both().fit, {}));
    fitted.session().initialize();
    Checkpoints checkpoints = saved.checkpoints();
    ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
    ASSERT_TRUE(next.save(fitted.session(), {.step = 2}));
  }
  Fitted fitted(case_of({}), saved.budgets, without_search(way_of_both().fit, {}));
  fitted.session().initialize();
  ASSERT_TRUE(next.restore_latest(fitted.session()));
  EXPECT_THAT(fitted.plan().notes, Contains(HasSubstr(kByRestored)));
}

TEST(PlanInACheckpoint, IsNamedWheneverTheProgramIsCompiled) {
  const Saved& saved = saved_by_both();
  Resumed resumed(saved, saved.budgets, without_search(way_of_both().fit, {}));
  ASSERT_THAT(resumed.report.notes, Contains(HasSubstr(kByRestored)));
  // A graph that has changed has its programs compiled again.
  take_out_again(resumed.fitted.graph(), [&] { (void)fill(resumed.fitted.graph(), {3}, 1); });
  EXPECT_EQ(resumed.fitted.plan().notes, resumed.report.notes);
}

TEST(PlanInACheckpoint, ComesBeforeWhatWasPlannedHereByNoProfile) {
  const Saved& saved = saved_by_both();
  FitBudgetOptions fit = way_of_both().fit;
  fit.profile.reset();
  fit.effort = 20'000;
  Fitted fitted(case_of({}), saved.budgets, fit);
  EXPECT_THAT(fitted.plan().notes, Not(Contains(HasSubstr(kByRestored))));
  fitted.session().initialize();
  Checkpoints checkpoints = saved.checkpoints();
  ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
  EXPECT_THAT(fitted.plan().notes, Contains(HasSubstr(kByRestored)));
  EXPECT_EQ(difference(saved.end, trained(fitted, 2, 4)), "");
}

TEST(PlanInACheckpoint, IsSearchedForAnewWhereThereIsMoreMemory) {
  const Saved& saved = saved_by_both();
  SessionOptions more = saved.budgets;
  more.device_memory = saved.report.planned_peak_bytes + saved.report.planned_peak_bytes / 8;
  Resumed resumed(saved, more, few(way_of_both().fit));
  EXPECT_THAT(resumed.report.notes,
              Contains(AllOf(HasSubstr(saved.name()), HasSubstr("of device memory, and there are"),
                             HasSubstr("it is searched for"))));
  EXPECT_LE(resumed.report.predicted_seconds, saved.report.predicted_seconds);
  EXPECT_EQ(difference(saved.end, resumed.end), "");
}

TEST(PlanInACheckpoint, IsSearchedForAnewWhereItDoesNotFit) {
  const Saved& saved = saved_by_both();
  SessionOptions less = saved.budgets;
  less.device_memory = saved.report.planned_peak_bytes - 1;
  Resumed resumed(saved, less, few(way_of_both().fit));
  EXPECT_TRUE(resumed.report.fits);
  EXPECT_THAT(resumed.report.notes,
              Contains(AllOf(HasSubstr("by the plan in"), HasSubstr("takes"), HasSubstr("it is searched for"))));
  EXPECT_LT(resumed.report.planned_peak_bytes, saved.report.planned_peak_bytes);
  EXPECT_EQ(difference(saved.end, resumed.end), "");
  EXPECT_NE(plan_of(resumed.fitted.session()).text(), saved.plan.text());
}

TEST(PlanInACheckpoint, IsSearchedForAnewForAnotherBatch) {
  const Saved& saved = saved_by_both();
  SessionOptions more = saved.budgets;
  Fitted fitted(case_of({.batch = 7}), more, few(way_of_both().fit));
  fitted.session().initialize();
  Checkpoints checkpoints = saved.checkpoints();
  ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
  EXPECT_THAT(fitted.plan().notes,
              Contains(AllOf(HasSubstr("has none for"), HasSubstr("images f32[7,8,8,3]"),
                             HasSubstr("only of images f32[6,8,8,3]"), HasSubstr("it is searched for"))));
}

TEST(PlanInACheckpoint, DoesNothingThatTheOptionsForbid) {
  const auto expect_forbidden = [](const Saved& saved, const FitBudgetOptions& fit, const char* what) {
    SessionOptions ample = saved.budgets;
    Resumed resumed(saved, ample, fit);
    EXPECT_THAT(resumed.report.notes, Contains(AllOf(HasSubstr(saved.name()), HasSubstr(what))));
    EXPECT_EQ(difference(saved.end, resumed.end), "");
    return resumed.report;
  };
  const Saved recomputing(plan_ways()[0]), swapping(plan_ways()[1]);
  ASSERT_GT(recomputing.report.recomputed_operations, 0);
  ASSERT_GT(swapping.report.bytes_out, 0);
  EXPECT_EQ(expect_forbidden(recomputing, few(plan_ways()[1].fit), "computes again, which is not allowed")
                .recomputed_operations,
            0);
  EXPECT_EQ(expect_forbidden(swapping, few(plan_ways()[0].fit), "offloads, which is not allowed").bytes_out, 0);
}

TEST(PlanInACheckpoint, GivesWayToOneThatIsGiven) {
  const Saved& saved = saved_by_both();
  Resumed resumed(saved, saved.budgets, without_search(way_of_both().fit, saved.plan));
  EXPECT_THAT(resumed.report.notes,
              AllOf(Contains(HasSubstr("by a plan that was given")), Not(Contains(HasSubstr(kByRestored)))));
  EXPECT_EQ(difference(saved.end, resumed.end), "");
}

/// The plan of the checkpoint with its content changed, and the hash that belongs to that.
std::string changed(const std::function<void(PlanContent&)>& change) {
  PlanContent content = *saved_by_both().plan.content();
  change(content);
  return content.text();
}

TEST(PlanInACheckpoint, ThatIsNoPlanForTheModelIsAWarningAndChangesNoBit) {
  const Saved& saved = saved_by_both();
  const std::string good = saved.plan.text();
  const auto instructions = [](auto edit) {
    return changed([edit](PlanContent& content) {
      for (ProgramPlan& program : content.programs) edit(program.instructions);
    });
  };
  using List = std::vector<PlannedInstruction>;
  const std::pair<std::string, const char*> texts[] = {
      {"", "is empty"},
      {"{}", "is no plan, or cut off"},
      {good.substr(0, good.size() / 2), "is no plan, or damaged"},
      {good + "\n", "is no plan, or damaged"},
      {std::string(100'000, '['), "is no plan"},
      {changed([](PlanContent& content) { ++content.model.variables; }), "is of a model with"},
      {changed([](PlanContent& content) { content.model.types = "0000000000000000"; }), "of other types"},
      {instructions([](List& list) { list.clear(); }), "is planned without it"},
      {instructions([](List& list) { list.pop_back(); }), "is planned without it"},
      {instructions([](List& list) { list[list.size() / 2].pass = 99; }), "has the pass 99"},
      {instructions([](List& list) { std::swap(list.front(), list.back()); }), "is planned without it"}};
  for (const auto& [text, problem] : texts) {
    SCOPED_TRACE(problem);
    const KeptTexts instead = {{kKeptPlan, text}};
    FitBudgetOptions fit = way_of_both().fit;
    fit.effort = 20'000;
    Resumed resumed(saved, saved.budgets, fit, &instead);
    EXPECT_THAT(resumed.log.lines,
                Contains(AllOf(HasSubstr("the plan in '" + saved.name() + "'"), HasSubstr(problem))));
    EXPECT_TRUE(resumed.report.fits);
    EXPECT_THAT(resumed.report.notes, Not(Contains(HasSubstr(kByRestored))));
    EXPECT_EQ(difference(saved.end, resumed.end), "");
  }
}

TEST(PlanInACheckpoint, BesideAProfileThatIsNoneIsAWarning) {
  const Saved& saved = saved_by_both();
  const KeptTexts instead = {{kKeptPlan, saved.plan.text()}, {kKeptProfile, "{}"}};
  FitBudgetOptions fit = without_search(way_of_both().fit, {});
  fit.profile.reset();
  Resumed resumed(saved, saved.budgets, fit, &instead);
  EXPECT_THAT(resumed.log.lines, Contains(HasSubstr("this is no profile")));
  EXPECT_THAT(resumed.report.notes, Contains(HasSubstr(kByRestored)));
}

TEST(PlanInACheckpoint, IsNoneOfASessionThatPlansOtherwise) {
  const Saved& saved = saved_by_both();
  const TemporaryFolder folder;
  Checkpoints other((folder.path() / "other").string());
  {
    Fitted fitted(case_of({}), checked({}, 1_GiB));
    engine(fitted.session()).set_instruction_editor("", {});
    fitted.session().initialize();
    Checkpoints checkpoints = saved.checkpoints();
    LogLines log;
    ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
    EXPECT_THAT(log.lines, Each(Not(HasSubstr("fit_budget"))));
    ASSERT_TRUE(other.save(fitted.session(), {.step = 2}));
    EXPECT_EQ(difference(saved.end, trained(fitted, 2, 4)), "");
  }
  ASSERT_THAT(other.list()[0].kept, IsEmpty());
  // Nor does a checkpoint without a plan leave that of another to who restores both.
  Fitted fitted(case_of({}), saved.budgets, few(way_of_both().fit));
  fitted.session().initialize();
  Checkpoints checkpoints = saved.checkpoints();
  ASSERT_TRUE(checkpoints.restore_latest(fitted.session()));
  LogLines log;
  ASSERT_TRUE(other.restore_latest(fitted.session()));
  EXPECT_EQ(plan_of(fitted.session()).num_programs(), 1) << "that of the initial values, which it has planned itself";
  EXPECT_THAT(fitted.plan().notes, Not(Contains(HasSubstr(kByRestored))));
  EXPECT_THAT(log.lines, Each(Not(HasSubstr("without it"))));
  EXPECT_EQ(difference(saved.end, trained(fitted, 2, 4)), "");
}

TEST(PlannedBefore, IsNotSearchedForAgainWhereAProgramIsCompiledAgain) {
  Fitted fitted(case_of({}), whole_plan().budgets, few(way_of_both().fit));
  auto fitter = std::make_shared<ProgramFitter>(engine(fitted.session()), few(way_of_both().fit));
  engine(fitted.session()).set_planner("fitter", fitter);
  const ProgramReport before = fitted.plan();
  ASSERT_TRUE(before.fits);
  // From here on a search would have no end.
  fitter->renew(without_search(way_of_both().fit, {}));
  fitted.session().initialize();
  const ProgramReport again = fitted.plan();
  EXPECT_EQ(again.notes, before.notes);
  EXPECT_EQ(again.planned_peak_bytes, before.planned_peak_bytes);
}

TEST(PlannedBefore, IsNotSearchedForAgainWhereNothingFits) {
  SessionOptions less = whole_plan().budgets;
  less.device_memory = whole_plan().budgets.device_memory.bytes_of(0) / 2;
  FitBudgetOptions fit = way_of_both().fit;
  fit.effort = 20'000;
  std::int64_t questions = 0;
  fit.stop = [&] { return ++questions < 0; };
  Fitted fitted(case_of({}), less, fit);
  const ProgramReport before = fitted.plan();
  ASSERT_FALSE(before.fits);
  ASSERT_GT(questions, 0);
  questions = 0;
  const ProgramReport again = fitted.plan();
  EXPECT_EQ(questions, 0);
  EXPECT_EQ(again.text(), before.text());
  EXPECT_EQ(device_advice(again), device_advice(before));
}

}  // namespace
}  // namespace sectionflow::testing

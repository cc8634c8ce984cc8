// Plans in files: what was searched for once is planned again without a search.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "fit/insert_swaps.h"
#include "fit/plan_content.h"
#include "tests/fit/plan_case.h"
#include "tests/support/log_lines.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

class SavedPlans : public ::testing::TestWithParam<PlanWay> {};

TEST_P(SavedPlans, GiveTheBytesAndPeaksOfTheSearchWithoutOne) {
  const TrainingCase net = case_of({});
  const SessionOptions budgets = tight(net, GetParam());
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "step.plan").string(), again = (folder.path() / "again.plan").string();
  const TrainingRecord plain = record_training(net, How::whole, {.steps = 3, .threads = 1});
  for (const How how : {How::whole, How::sections, How::halves}) {
    SCOPED_TRACE(name_of(how));
    const auto trained = [&](const FitBudgetOptions& fit) {
      TrainOptions options{.steps = 3, .threads = 1, .session = budgets};
      options.on_session = [&](How, const Graph&, Session& session) { fit_budget(session, fit); };
      return record_training(net, how, options);
    };
    const auto planned = [&](Fitted& fitted) {
      fitted.session().initialize();
      (void)fitted.plan_evaluation();
      return how == How::whole ? fitted.plan() : how == How::sections ? fitted.plan_cycle() : fitted.plan_halves();
    };
    Fitted searched(net, budgets, few(GetParam().fit));
    const ProgramReport found = planned(searched);
    ASSERT_TRUE(found.fits);
    ASSERT_GT(found.recomputed_operations + static_cast<int>(found.bytes_out), 0);
    save_plan(searched.session(), path);

    const FitPlan plan = load_plan(path);
    Fitted loaded(net, budgets, without_search(GetParam().fit, plan));
    const ProgramReport report = planned(loaded);
    EXPECT_TRUE(report.fits);
    EXPECT_EQ(report.planned_peak_bytes, found.planned_peak_bytes);
    EXPECT_EQ(report.host_peak_bytes, found.host_peak_bytes);
    EXPECT_EQ(report.disk_peak_bytes, found.disk_peak_bytes);
    EXPECT_EQ(report.recomputed_operations, found.recomputed_operations);
    EXPECT_EQ(report.bytes_out, found.bytes_out);
    EXPECT_EQ(report.num_steps, found.num_steps);
    EXPECT_THAT(report.notes, Contains(HasSubstr("by a plan that was given")));
    for (const std::string& note : found.notes) EXPECT_THAT(report.notes, Contains(note));
    save_plan(loaded.session(), again);
    EXPECT_EQ(bytes_of_file(again), bytes_of_file(path));

    const TrainingRecord by_plan = trained(without_search(GetParam().fit, plan));
    EXPECT_EQ(first_difference(plain, by_plan), "");
    EXPECT_THAT(by_plan.complaints, IsEmpty());
    EXPECT_EQ(first_difference(trained(few(GetParam().fit)), by_plan), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SavedPlans, ::testing::ValuesIn(plan_ways()),
                         [](const auto& info) { return std::string(info.param.name); });

const std::string& text_of_plan() {
  return whole_plan().text;
}
const SessionOptions& budgets_of_plan() {
  return whole_plan().budgets;
}

FitBudgetOptions by_text(const std::string& text) {
  return without_search(way_of_both().fit, FitPlan::from_text(text, "the plan: "));
}

/// What is handed to a session of another net, options for a search included.
void expect_refused(const PlannedNet& net, const ::testing::Matcher<std::string>& text) {
  Fitted fitted(case_of(net), budgets_of_plan(), by_text(text_of_plan()));
  EXPECT_THAT([&] { fitted.plan(); }, ThrowsMessage<DataError>(AllOf(HasSubstr("SF-E102"), text)));
}

TEST(SavedPlan, OfAnotherModelIsRefused) {
  expect_refused({.features = 16}, AllOf(HasSubstr("the plan is of a model with"), HasSubstr("trained variables")));
  expect_refused({.layers = 3}, HasSubstr("the plan is of a model with"));
}

TEST(SavedPlan, OfAnotherModelIsRefusedThoughItHasTheProgram) {
  const TrainingCase with_another{"a net and a variable", [](Graph& graph, GraphSectionManager& manager) {
                                    TrainingNet net = case_of({}).build(graph, manager);
                                    variable("another", fill(graph, {3}, 0.5));
                                    return net;
                                  }};
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  Fitted fitted(with_another, budgets_of_plan(), fit);
  EXPECT_THAT([&] { fitted.plan(); }, ThrowsMessage<DataError>(HasSubstr("the plan is of a model with")));
}

TEST(SavedPlan, LeavesAnotherGraphWithTheSameVariablesToTheSearchWithAWarning) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  Fitted fitted(case_of({.drops = false}), budgets_of_plan(), fit);
  testing_support::LogLines log;
  fitted.plan();
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("has none for"), HasSubstr("only for another graph"))));
}

TEST(SavedPlan, WithoutFetchesLeavesInitializingToItself) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = case_of({}).build(graph, manager);
  FeedStore store;
  const Feeds feeds = net.feeds(0, store);
  Session first(graph, budgets_of_plan());
  fit_budget(first, few(way_of_both().fit));
  EXPECT_TRUE(first.plan({}, types_of(feeds), {.targets = manager.training_operations()}).fits);
  Session second(graph, budgets_of_plan());
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = plan_of(first);
  ASSERT_EQ(fit.plan.num_programs(), 1);
  fit_budget(second, fit);
  second.initialize();
  // Asked for the same again, it knows what it has planned.
  EXPECT_TRUE(second.plan({}, types_of(feeds), {.targets = manager.training_operations()}).fits);
  const int num_programs = plan_of(second).num_programs();
  fit_budget(second, fit);
  EXPECT_EQ(plan_of(second).num_programs(), num_programs);
}

TEST(SavedPlan, LeavesAFirstBatchOfAnotherSizeToTheSearchWithAWarning) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  Fitted fitted(case_of({.batch = 12}), budgets_of_plan(), fit);
  testing_support::LogLines log;
  fitted.plan();
  EXPECT_THAT(log.lines,
              Contains(AllOf(HasSubstr("the plan that was given has none for"), HasSubstr("images f32[12,8,8,3]"),
                             HasSubstr("only of images f32[6,8,8,3]"), HasSubstr("it is searched for"))));
}

TEST(SavedPlan, LeavesALaterBatchOfAnotherSizeToTheSearch) {
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  Fitted fitted(case_of({.later_batch = 5}), budgets_of_plan(), fit);
  fitted.session().initialize();
  fitted.run(0);
  testing_support::LogLines log;
  fitted.run(1);
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("the plan that was given has none for"),
                                        HasSubstr("images f32[5,8,8,3]"), HasSubstr("it is searched for"))));
}

TEST(SavedPlan, LeavesOtherFetchesToTheSearch) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = case_of({}).build(graph, manager);
  Session session(graph, budgets_of_plan());
  FitBudgetOptions fit = few(way_of_both().fit);
  fit.plan = FitPlan::from_text(text_of_plan(), "the plan: ");
  fit_budget(session, fit);
  FeedStore store;
  const Feeds feeds = net.feeds(0, store);
  testing_support::LogLines log;
  const Value other = net.loss.node().inputs()[0];
  EXPECT_TRUE(session.plan({net.loss, other}, types_of(feeds), {.targets = manager.training_operations()}).fits);
  EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("has none for"), HasSubstr("'" + other.name() + "'"))));
}

TEST(SavedPlan, IsHeldAgainstTheBudgetOfTheSessionThatTakesIt) {
  Fitted more(case_of({}), checked(way_of_both().session, 1_GiB), by_text(text_of_plan()));
  const ProgramReport roomy = more.plan();
  EXPECT_TRUE(roomy.fits);
  EXPECT_GT(roomy.recomputed_operations + static_cast<int>(roomy.bytes_out), 0);
  EXPECT_THAT(roomy.notes, Contains(AllOf(HasSubstr("and there are 1.00 GiB"), HasSubstr("fits them without a plan"))));
  const std::string may_be_quicker = "a search may find a quicker one";
  const std::size_t planned_for = FitPlan::from_text(text_of_plan(), "the plan: ").content()->budgets.device;
  Fitted some(case_of({}), checked(way_of_both().session, planned_for / 15 * 16), by_text(text_of_plan()));
  EXPECT_THAT(some.plan().notes, Contains(HasSubstr(may_be_quicker)));
  Fitted same(case_of({}), budgets_of_plan(), by_text(text_of_plan()));
  EXPECT_THAT(same.plan().notes, Each(Not(HasSubstr(may_be_quicker))));

  Fitted less(case_of({}), checked(way_of_both().session, roomy.planned_peak_bytes - 1), by_text(text_of_plan()));
  less.session().initialize();
  EXPECT_FALSE(less.plan().fits);
  try {
    less.run(0);
    FAIL() << "a plan runs in less than it takes";
  } catch (const BudgetError& error) {
    EXPECT_EQ(error.minimum_bytes, roomy.planned_peak_bytes);
    EXPECT_THAT(error.fact("hint"), HasSubstr("plan anew, without the plan that was given"));
  }
}

TEST(SavedPlan, OfAProgramThatFitsAsItIsHasNothingToSayOfMoreMemory) {
  Fitted fitting(case_of({}), checked(way_of_both().session, 100_MiB), few(way_of_both().fit));
  ASSERT_TRUE(fitting.plan().fits);
  const FitBudgetOptions by_plan = without_search(way_of_both().fit, plan_of(fitting.session()));
  Fitted more(case_of({}), checked(way_of_both().session, 1_GiB), by_plan);
  testing_support::LogLines log;
  EXPECT_THAT(more.plan().notes, Each(Not(HasSubstr("there are 1.00 GiB"))));
  EXPECT_THAT(log.lines, Each(Not(HasSubstr("there are 1.00 GiB"))));
}

TEST(SavedPlan, IsNoneBeforeAnythingIsPlanned) {
  Graph graph;
  Session session(graph);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "step.plan").string();
  EXPECT_THAT([&] { save_plan(session, path); }, ThrowsMessage<ArgumentError>(HasSubstr("call fit_budget(session)")));
  fit_budget(session);
  EXPECT_THAT([&] { save_plan(session, path); }, ThrowsMessage<ArgumentError>(HasSubstr("nothing has been planned")));
  EXPECT_EQ(folder.num_files(), 0U);
  EXPECT_EQ(plan_of(session).num_programs(), 0);
  EXPECT_THAT([&] { load_plan(path); }, ThrowsMessage<DataError>(HasSubstr(path)));
}

TEST(SavedPlan, HasWhatWasPlannedBeforeOtherOptionsCameAndWent) {
  Fitted fitted(case_of({}), budgets_of_plan(), few(way_of_both().fit));
  fitted.session().initialize();
  ASSERT_TRUE(fitted.plan().fits);
  const std::string before = plan_of(fitted.session()).text();
  FitBudgetOptions other = few(way_of_both().fit);
  other.effort += 1;
  fit_budget(fitted.session(), other);
  EXPECT_EQ(plan_of(fitted.session()).num_programs(), 0);
  insert_swaps(fitted.session());
  fit_budget(fitted.session(), few(way_of_both().fit));
  EXPECT_TRUE(fitted.plan().fits);
  EXPECT_EQ(plan_of(fitted.session()).text(), before);
}

TEST(SavedPlan, OfAHostMemoryWithoutEndIsReadAgain) {
  PlanContent content = *FitPlan::from_text(text_of_plan(), "the plan: ").content();
  content.budgets.host = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(FitPlan::from_text(content.text(), "the plan: ").num_programs(), static_cast<int>(content.programs.size()));
}

TEST(SavedPlan, OfAProgramThatNothingFitsIsNotSaved) {
  const TemporaryFolder folder;
  const std::string path = folder.file("step.plan", "before").string();
  Fitted fitted(case_of({}), checked({}, 1), few({.may_swap = false}));
  EXPECT_FALSE(fitted.plan().fits);
  EXPECT_EQ(plan_of(fitted.session()).num_programs(), 0);
  EXPECT_THAT([&] { save_plan(fitted.session(), path); },
              ThrowsMessage<ArgumentError>(AllOf(HasSubstr("SF-E010"), HasSubstr("does not fit its budgets"))));
  EXPECT_EQ(bytes_of_file(path), "before");
}

TEST(SavedPlan, ThatWasGivenAndRefusedIsNotSavedAgain) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "step.plan").string();
  const auto expect_not_saved = [&](Session& session) {
    EXPECT_THAT([&] { save_plan(session, path); }, ThrowsMessage<ArgumentError>(HasSubstr("save_plan: ")));
    EXPECT_EQ(folder.num_files(), 0U);
  };
  // Another model's.
  Fitted other(case_of({.features = 16}), budgets_of_plan(), by_text(text_of_plan()));
  EXPECT_THROW(other.plan(), DataError);
  expect_not_saved(other.session());
  // Of more memory: what has been asked for is left out, and what has not is still what was given.
  SessionOptions less = budgets_of_plan();
  less.device_memory = less.device_memory.bytes_of(1_GiB) * 3 / 4;
  Fitted small(case_of({}), less, by_text(text_of_plan()));
  const int given = plan_of(small.session()).num_programs();
  ASSERT_FALSE(small.plan().fits);
  EXPECT_EQ(plan_of(small.session()).num_programs(), given - 1);
}

}  // namespace
}  // namespace sectionflow::testing

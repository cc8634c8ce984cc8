// fit_budget keeps to what the options of sections keep or offload in any case, and plans the rest around it.

#include <gtest/gtest.h>

#include "fit/make_problem.h"
#include "planning/evaluate.h"
#include "tests/fit/fit_case.h"
#include "tests/support/budget_grid.h"

namespace sectionflow::testing {
namespace {

/// Sections of several layers, with options.
TrainingCase in_sections(const SectionOptions& options) {
  return {"in sections", [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            Value x = in.images, loss;
            for (int k = 0; k < 3; ++k) {
              const auto section = manager.new_section();
              for (int i = 0; i < 3; ++i) x = conv_norm_relu(x, in.is_training, 8);
              if (k == 2) loss = head_loss(x, in.labels);
            }
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss, {.sections = options});
            manager.prepare_training();
            return TrainingNet{loss, in.feeds()};
          }};
}

/// Fitted by computing again alone.
FitBudgetOptions again() {
  return few({.may_swap = false, .effort = 300'000});
}

const SectionOptions kHost{.borders = BorderPolicy::host};

ProgramReport planned(const SectionOptions& options, std::size_t device_memory) {
  return Fitted(in_sections(options), checked({}, device_memory), again()).plan_cycle();
}

/// What the cut takes by itself.
ProgramReport by_cuts(const SectionOptions& options) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = in_sections(options).build(graph, manager);
  Session session(graph, checked({}, 1_GiB));
  FeedStore store;
  return manager.plan(session, {built.loss}, types_of(built.feeds(0, store)));
}

TEST(FitPolicies, OffloadsInAnyCaseStayAndOtherValuesAreComputedAgainBelowWhatTheCutNeeds) {
  const ProgramReport cut = by_cuts(kHost);
  const std::size_t budget = cut.planned_peak_bytes - cut.planned_peak_bytes / 10;
  const ProgramReport report = planned(kHost, budget);
  EXPECT_TRUE(report.fits);
  EXPECT_EQ(report.bytes_out, cut.bytes_out);
  EXPECT_GT(report.recomputed_operations, 0);
  TrainOptions options{.steps = 3, .threads = 1};
  const TrainingRecord plain = record_training(in_sections({}), How::whole, options);
  options.session.device_memory = budget;
  options.on_session = [](How, const Graph&, Session& session) { fit_budget(session, again()); };
  for (const How how : {How::sections, How::halves}) {
    const TrainingRecord fitted = record_training(in_sections(kHost), how, options);
    EXPECT_EQ(first_difference(plain, fitted), "") << name_of(how);
    EXPECT_TRUE(fitted.complaints.empty()) << name_of(how);
  }
}

TEST(FitPolicies, WhatIsKeptIsNeitherComputedAgainNorOffloaded) {
  const SectionOptions keep{.borders = BorderPolicy::keep, .interior = InteriorPolicy::keep};
  const std::size_t peak = by_cuts(keep).planned_peak_bytes;
  EXPECT_TRUE(planned(keep, peak).fits);
  const ProgramReport less = Fitted(in_sections(keep), checked({}, peak * 3 / 4), few()).plan_cycle();
  EXPECT_FALSE(less.fits);
  EXPECT_EQ(less.bytes_out, 0U);
}

TEST(FitPolicies, MoreMemoryIsNeverSlowerAroundWhatIsOffloadedInAnyCase) {
  const std::size_t cut = by_cuts(kHost).planned_peak_bytes;
  const PlanInBudgets plan = [&](std::size_t device, std::size_t host) {
    SessionOptions options = checked({.copy_threads = true}, device);
    options.host_memory = host;
    return Fitted(in_sections(kHost), options, few({.effort = 300'000})).plan_cycle();
  };
  EXPECT_GT(expect_monotone(plan, even_steps(cut * 3 / 4, cut * 5 / 4, 5), {1_MiB, 1_GiB}), 4);
}

/// What a list with everything in it is to the planner, and to a schedule.
struct TakenByCopies {
  std::int64_t by_problem = 0, by_schedule = 0;
  int twice = 0, repeatable = 0;
  double copies = 0;  ///< seconds
};

TakenByCopies taken_with_copies(const SectionOptions& sections, const SessionOptions& options) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet built = in_sections(sections).build(graph, manager);
  Session session(graph, options);
  TakenByCopies taken;
  engine(session).set_instruction_editor("taken", [&](const InstructionList& list, PlanningTools& tools) {
    const Profile profile = Profile::nominal();
    StepTimes times(tools, profile);
    const Draft draft = tools.draft(list);
    const auto nothing = [](const Node&) { return false; };
    const ListProblem made = make_list_problem(list, draft, tools, times, InPlaceRuns::joined, nothing);
    const planning::Problem& problem = made.problem();
    taken.by_problem = planning::default_peak(problem);
    taken.by_schedule = static_cast<std::int64_t>(draft.plan.lower_bound_bytes);
    std::set<std::string> names;
    for (const planning::Operation& operation : problem.operations) {
      taken.twice += names.insert(operation.name).second ? 0 : 1;
      taken.repeatable += operation.repeatable && !operation.inputs.empty() ? 1 : 0;
    }
    const planning::Evaluation as_it_is = planning::evaluate(problem, planning::default_plan(problem));
    EXPECT_TRUE(as_it_is.ok) << as_it_is.fault;
    taken.copies = as_it_is.cost;
    for (const double seconds : times.of(tools.prepared(without_offloads(list)))) taken.copies -= seconds;
    const std::vector<int> order = executions_of(planning::default_plan(problem));
    EXPECT_EQ(made.list_of(order).instructions.size(), list.instructions.size());
    return list;
  });
  FeedStore store;
  (void)manager.plan(session, {built.loss}, types_of(built.feeds(0, store)));
  return taken;
}

TEST(FitPolicies, AListThatStandsTwiceAndOffloadsTakesInTheProblemWhatItsScheduleTakes) {
  for (const bool by_threads : {false, true}) {
    const TakenByCopies taken = taken_with_copies(kHost, {.copy_threads = by_threads, .threads = 1});
    EXPECT_GT(taken.twice, 0);
    EXPECT_EQ(taken.repeatable, 0) << "what may not be computed again";
    EXPECT_LE(taken.by_problem, taken.by_schedule + taken.by_schedule / 10);
    EXPECT_GE(taken.by_problem, taken.by_schedule - 4096);
    EXPECT_EQ(taken.copies > 1e-9, !by_threads) << "copies take the compute team's time, or none";
  }
}

}  // namespace
}  // namespace sectionflow::testing

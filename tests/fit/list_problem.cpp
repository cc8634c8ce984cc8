#include "fit/list_problem.h"

#include <gtest/gtest.h>

#include "examples/models/zoo.h"
#include "fit/make_problem.h"
#include "planning/evaluate.h"
#include "planning/lower_bound.h"
#include "planning/search.h"
#include "runtime/engine.h"

namespace sectionflow::testing {
namespace {

/// What the planner takes a training step of a small model for, and what schedules of it take.
struct Taken {
  std::int64_t by_problem = 0, by_schedule = 0;              // of the step as it is
  std::int64_t again_by_problem = 0, again_by_schedule = 0;  // of a plan for less
};

std::int64_t live_bytes(PlanningTools& tools, const InstructionList& list) {
  return static_cast<std::int64_t>(tools.draft(list).plan.lower_bound_bytes);
}

Taken taken_by(const std::string& name, const ZooOptions& options) {
  const ZooModel model = zoo_model(name, options);
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  Session session(graph, {.threads = 1});
  Taken taken;
  engine(session).set_instruction_editor("taken", [&](const InstructionList& list, PlanningTools& tools) {
    const Profile profile = Profile::nominal();
    StepTimes times(tools, profile);
    const InstructionList once = without_repeats(list);
    const ListProblem problem = make_list_problem(once, tools.draft(once), tools, times);
    taken.by_problem = planning::default_peak(problem.problem());
    taken.by_schedule = live_bytes(tools, once);
    const std::int64_t least = planning::largest_working_set(problem.problem()).bytes;
    const planning::SearchResult found =
        search_plan(problem.problem(), {.budget = least + (taken.by_problem - least) / 2, .effort = 200'000});
    if (found.plan) {
      taken.again_by_problem = found.evaluation.peak;
      taken.again_by_schedule = live_bytes(tools, problem.list_of(executions_of(*found.plan)));
    }
    return list;
  });
  const Batch batch = model.batch({.batch = 4, .seed = 1, .step = 0});
  session.plan({built.loss}, types_of(built.feeds(batch)), {.targets = manager.training_operations()});
  return taken;
}

class ZooListProblem : public ::testing::TestWithParam<std::string> {};

TEST_P(ZooListProblem, TakesWhatItsSchedulesTake) {
  ZooOptions options;
  const std::string& name = GetParam();
  const bool reads_text = name == "gpt" || name == "llama" || name == "bert_base" || name.ends_with("_lm");
  options.image = name == "inception_v3" ? 75 : 64;
  if (reads_text || name.starts_with("mnist")) options.image = 0;
  // Of a large vocabulary most of the peak is the gradient of its table, which nothing makes less.
  if (name.ends_with("_lm")) options.sequence = 48, options.vocabulary = 64, options.width = 32;
  const Taken taken = taken_by(GetParam(), options);
  // Numbers that tensors are scaled by count nothing in the problem.
  EXPECT_LE(taken.by_problem, taken.by_schedule);
  EXPECT_GE(taken.by_problem, taken.by_schedule - 4096);
  ASSERT_GT(taken.again_by_problem, 0) << "no plan was found";
  // Beside what the problem counts there are small values that replays read.
  EXPECT_GE(taken.again_by_schedule, taken.again_by_problem - taken.again_by_problem / 100);
  EXPECT_LE(taken.again_by_schedule, taken.again_by_problem + taken.again_by_problem / 50);
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooListProblem, ::testing::ValuesIn(zoo_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sectionflow::testing

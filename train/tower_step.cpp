#include "train/tower_step.h"

#include "runtime/check_feeds.h"
#include "runtime/engine.h"
#include "train/tower_variables.h"

namespace sectionflow {

std::vector<Operation> training_operations_of(const Graph& graph) {
  std::vector<Operation> all;
  for (const std::string_view collection : {kTrainingOperations, kUpdateOperations, kAccumulationOperations}) {
    for (const Operation operation : graph.operations(collection)) all.push_back(operation);
  }
  return all;
}

namespace {

bool is_cycle(const Tower& tower, const TowerStep& step) {
  return step.trains && !tower.manager().sections().empty();
}

RunOptions run_options(const Tower& tower, const TowerStep& step) {
  RunOptions options;
  if (step.trains) options.targets = training_operations_of(tower.graph());
  return options;
}

}  // namespace

ProgramReport plan_step(const Tower& tower, const TowerStep& step, Where where) {
  // Types tell no dtypes.
  (void)signature_of(tower.graph(), step.feeds);
  const FeedTypes types = types_of(step.feeds);
  if (is_cycle(tower, step)) return tower.manager().plan(tower.session(), step.fetches, types, where);
  return tower.session().plan(step.fetches, types, run_options(tower, step), where);
}

void check_step(const Tower& tower, const TowerStep& step, Where where) {
  const Session& session = tower.session();
  check_no_half(session, step.trains ? "train" : "run");
  check_whole(session);
  const ProgramReport report = plan_step(tower, step, where);
  if (!report.fits) throw_budget_error(report);
  const Engine& behind = engine(session);
  if (const Executable* const program = behind.latest_program()) behind.check_ready(*program);
  if (session.options().check_feeds) check_finite(step.feeds);
}

std::vector<HostTensor> execute_step(const Tower& tower, const TowerStep& step, Where where) {
  if (is_cycle(tower, step)) {
    return tower.manager().run_full_cycle(tower.session(), step.fetches, step.feeds, {}, where);
  }
  return tower.session().run(step.fetches, step.feeds, run_options(tower, step), where);
}

}  // namespace sectionflow

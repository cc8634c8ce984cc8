#include "fit/make_problem.h"

#include <map>
#include <set>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {
namespace {

/// By step of a draft of the list: where kernels of replays read what was kept, as long as these take.
std::vector<double> seconds_again(const InstructionList& list, const Draft& draft, PlanningTools& tools,
                                  StepTimes& times) {
  InstructionList twice = list;
  twice.instructions.clear();
  const Graph& graph = tools.graph().graph();
  for (const Instruction& instruction : list.instructions) {
    twice.instructions.push_back(instruction);
    if (instruction.kind != StepKind::compute || graph.node(instruction.node).op().kept_outputs.empty()) continue;
    twice.instructions.push_back(instruction);
    twice.instructions.back().replay = true;
  }
  twice.half = static_cast<int>(twice.instructions.size());
  const Schedule schedule = tools.prepared(twice);
  const std::vector<double> of_twice = times.of(schedule);
  std::map<NodeId, double> replays;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule.steps[i].replay) replays[schedule.steps[i].node] = of_twice[i];
  }
  std::vector<double> seconds = times.of(draft.schedule);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = draft.schedule.steps[i];
    const auto found = replays.find(step.node);
    if (step.kind == StepKind::compute) seconds[i] = found != replays.end() ? found->second : times.again(step);
  }
  return seconds;
}

}  // namespace

InstructionList without_repeats(const InstructionList& list) {
  InstructionList once = list;
  once.instructions.clear();
  std::set<NodeId> there;
  for (std::size_t i = 0; i < list.instructions.size(); ++i) {
    if (static_cast<int>(i) == list.half) once.half = static_cast<int>(once.instructions.size());
    const Instruction& instruction = list.instructions[i];
    const bool brings = instruction.kind == StepKind::compute || instruction.kind == StepKind::feed;
    if (!brings || there.insert(instruction.node).second) once.instructions.push_back(instruction);
  }
  if (list.half >= static_cast<int>(list.instructions.size())) once.half = static_cast<int>(once.instructions.size());
  for (Instruction& instruction : once.instructions) instruction.replay = false;
  return once;
}

ListProblem make_list_problem(const InstructionList& list, const Draft& draft, PlanningTools& tools, StepTimes& times,
                              InPlaceRuns runs) {
  return {list, draft, tools, times.of(draft.schedule), seconds_again(list, draft, tools, times), runs};
}

planning::Problem problem_of(const InstructionList& list, PlanningTools& tools, const Profile& profile,
                             InPlaceRuns runs) {
  const InstructionList once = without_repeats(list);
  StepTimes times(tools, profile);
  return make_list_problem(once, tools.draft(once), tools, times, runs).problem();
}

}  // namespace sectionflow

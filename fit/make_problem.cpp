#include "fit/make_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

/// By step of a draft of the list: where kernels of replays read what was kept, as long as these take.
std::vector<double> seconds_again(const InstructionList& list, const Draft& draft, PlanningTools& tools,
                                  StepTimes& times) {
  InstructionList twice = list;
  twice.instructions.clear();
  const Graph& graph = tools.graph().graph();
  const std::vector<int> strips = strips_of(list.instructions);
  const auto again = [&](std::size_t first, std::size_t end) {
    const auto has_kept = [&](const Instruction& instruction) {
      return instruction.kind == StepKind::compute && !graph.node(instruction.node).op().kept_outputs.empty();
    };
    const auto begin = list.instructions.begin();
    if (std::none_of(begin + first, begin + end, has_kept)) return;
    for (std::size_t i = first; i < end; ++i) {
      twice.instructions.push_back(list.instructions[i]);
      twice.instructions.back().replay = makes_step(list.instructions[i], tools.graph());
    }
  };
  // A strip is repeated as a whole.
  for (std::size_t first = 0, i = 0; i < list.instructions.size(); ++i) {
    twice.instructions.push_back(list.instructions[i]);
    if (i + 1 < strips.size() && strips[i] >= 0 && strips[i + 1] == strips[i]) continue;
    again(first, i + 1);
    first = i + 1;
  }
  twice.half = static_cast<int>(twice.instructions.size());
  const Schedule schedule = tools.prepared(twice);
  const std::vector<double> of_twice = times.of(schedule);
  std::map<std::pair<NodeId, int>, double> replays;  // by nodes and parts
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    if (step.replay) replays[{step.node, step.part}] = of_twice[i];
  }
  std::vector<double> seconds = times.of(draft.schedule);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = draft.schedule.steps[i];
    const auto found = replays.find({step.node, step.part});
    if (step.kind == StepKind::compute) seconds[i] = found != replays.end() ? found->second : times.again(step);
  }
  return seconds;
}

InstructionList only(const InstructionList& list, const std::function<bool(const Instruction&)>& is_wanted) {
  InstructionList wanted = list;
  wanted.instructions.clear();
  for (std::size_t i = 0; i < list.instructions.size(); ++i) {
    if (static_cast<int>(i) == list.half) wanted.half = static_cast<int>(wanted.instructions.size());
    if (is_wanted(list.instructions[i])) wanted.instructions.push_back(list.instructions[i]);
  }
  if (list.half >= static_cast<int>(list.instructions.size()))
    wanted.half = static_cast<int>(wanted.instructions.size());
  return wanted;
}

}  // namespace

InstructionList without_repeats(const InstructionList& list) {
  std::set<std::pair<NodeId, int>> there;  // and parts
  InstructionList once = only(list, [&](const Instruction& instruction) {
    const bool brings = instruction.kind == StepKind::compute || instruction.kind == StepKind::feed;
    return !brings || there.emplace(instruction.node, instruction.part).second;
  });
  for (Instruction& instruction : once.instructions) instruction.replay = false;
  return once;
}

InstructionList without_offloads(const InstructionList& list) {
  std::set<Value> offloaded;
  for (const Instruction& instruction : list.instructions) {
    if (instruction.kind == StepKind::copy_out) offloaded.insert(instruction.fetched);
  }
  return only(list, [&](const Instruction& instruction) {
    const bool is_hold = instruction.kind == StepKind::hold && offloaded.contains(instruction.fetched);
    return !is_transfer(instruction.kind) && !is_hold;
  });
}

ListProblem make_list_problem(const InstructionList& list, const Draft& draft, PlanningTools& tools, StepTimes& times,
                              InPlaceRuns runs, const MayRepeat& may_repeat) {
  // Copies that threads carry take no time of the compute team's, which is all that the planner counts.
  std::vector<double> seconds = times.of(draft.schedule);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (draft.schedule.steps[i].lane != Lane::compute) seconds[i] = 0;
  }
  return {list, draft, tools, seconds, seconds_again(list, draft, tools, times), runs, may_repeat};
}

planning::Problem problem_of(const InstructionList& list, PlanningTools& tools, const Profile& profile,
                             InPlaceRuns runs) {
  const InstructionList once = without_repeats(list);
  StepTimes times(tools, profile);
  return make_list_problem(once, tools.draft(once), tools, times, runs).problem();
}

}  // namespace sectionflow

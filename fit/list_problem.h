#pragma once

#include <span>
#include <vector>

#include "fit/list_units.h"
#include "planning/evaluate.h"
#include "planning/problem.h"
#include "schedule/planning_tools.h"

namespace sectionflow {

/// An instruction list as a problem for the planner. An operation of the problem is an instruction; or several that
/// stand side by side, where a kernel writes over what the one before it leaves; or a strip, all parts of a chain of
/// nodes, which is executed as a whole and takes what its fullest part takes. What stands twice are two operations
/// with a value of their own each, which the list's order tells apart: such a list's first executions must stay in it.
///
/// Offloads of the list stay as they are: its copies are operations that take the compute team's time, or none where
/// threads carry them. The value has no bytes of its own; where it is on the device, they are counted with what each
/// operation takes beside its values, and where it is not, they are free.
///
/// Bytes are
/// those of storages. What a kernel may write in place is written over its last reader's input, as in a schedule, but
/// for kernels of replays that write in other places than those of first executions; and the small values that replays
/// read (OpDef::kept_outputs) are not counted between their readers: only a draft of a list tells what it takes.
/// Variables are no values of the problem: of them it knows that nobody reads them after their update.
class ListProblem {
 public:
  /// `draft` is of `list`, by `tools`; `seconds` and `seconds_again` of its steps: their first execution, and each
  /// further one. Only the tools' graph must outlive this. REQUIRES: nothing was there before.
  ListProblem(InstructionList list, const Draft& draft, const PlanningTools& tools, const std::vector<double>& seconds,
              const std::vector<double>& seconds_again, InPlaceRuns runs = InPlaceRuns::joined,
              const MayRepeat& may_repeat = {});

  const planning::Problem& problem() const { return problem_; }

  /// The list that executes the operations in this order, in which each stands at least once; what an operation reads
  /// has been written before it. The forward half of a cycle ends behind the last of its operations.
  InstructionList list_of(std::span<const int> order) const;

  /// The list of a plan with its copies, each where it begins by the clock of evaluate(): behind what is over then, and
  /// before all else. So memory is planned for what is under way at once, as that clock counts it: what a copy out
  /// leaves is held until it is over, and so is what a copy in has read in host memory. What comes back before the copy
  /// on the device is out of use stays there. REQUIRES: threads carry copies, the list has no offloads and no halves,
  /// and evaluate(problem(), plan, limits) has no fault.
  InstructionList list_of(const planning::Plan& plan, const planning::Limits& limits) const;

 private:
  class Writer;
  void add_operations(const Draft& draft, const std::vector<ListUnit>& units);
  void add_overwrites(const Draft& draft, const ListUnit& unit, const std::vector<int>& value_of,
                      planning::Operation& operation) const;
  void add_order(const std::vector<ListUnit>& units);

  InstructionList list_;
  const ConcreteGraph* graph_;
  planning::Problem problem_;
  std::vector<Value> values_;                   // of each value of the problem
  std::vector<std::vector<int>> instructions_;  // of each operation, numbers of the list's
};

/// The executions of a plan.
std::vector<int> executions_of(const planning::Plan& plan);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "planning/problem.h"
#include "schedule/planning_tools.h"

namespace sectionflow {

/// Instructions side by side, of which each writes over what the one before it leaves: joined they are one operation of
/// the problem, so that a search has less to look at. Apart, what they read may be away between them: what is proved of
/// the problem then holds for every list.
enum class InPlaceRuns { joined, apart };

/// Whether a node may be executed again; absent: whatever gives the same bits.
using MayRepeat = std::function<bool(const Node&)>;

/// One step with the instructions that it comes from, or steps that are executed together: those that write over what
/// the one before leaves, and all of a strip (strips_of).
struct ListUnit {
  struct Execution {
    StepIndex step = 0;                           // of the draft
    std::vector<int> inputs, outputs;             // buffers, each once
    std::vector<planning::Overwrite> overwrites;  // buffers of equal bytes
    std::int64_t workspace = 0;                   // but for what steps have in turn
  };
  std::vector<int> instructions;
  std::vector<Execution> executions;
  std::vector<NodeId> reads, changes;  // variables
  double seconds = 0, seconds_again = 0;
  bool repeatable = false;

  void join(ListUnit after) {
    const auto append = [](auto& all, auto& more) { all.insert(all.end(), more.begin(), more.end()); };
    append(instructions, after.instructions);
    append(executions, after.executions);
    append(reads, after.reads);
    append(changes, after.changes);
    seconds += after.seconds;
    seconds_again += after.seconds_again;
  }
};

/// Of the steps of a draft: their first execution, and each further one.
struct StepSeconds {
  const std::vector<double>&first, &again;
};

/// The units of a list and its draft, in the order of the list.
std::vector<ListUnit> list_units(const InstructionList& list, const Draft& draft, const PlanningTools& tools,
                                 const StepSeconds& seconds, InPlaceRuns runs, const MayRepeat& may_repeat);

/// Operations, values and instructions have numbers that are no sizes.
inline std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// Whether an instruction is a step of its own; an identity only gives a buffer another name.
bool makes_step(const Instruction& instruction, const ConcreteGraph& graph);
/// Constants of less than a page, such as numbers that tensors are scaled by, are not worth the planner's questions:
/// they stay from when they are there, and count nothing.
bool is_small_constant(const Node& node);

}  // namespace sectionflow

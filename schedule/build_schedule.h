#pragma once

#include <vector>

#include "base/export.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// What a run is asked for.
struct RunRequest {
  std::vector<Value> fetches;
  std::vector<Operation> targets;  ///< executed for their effect
  /// The targets give variables their initial values: who reads a variable reads what it is given in this run.
  bool gives_initial_values = false;
};

/// All nodes that a request needs, each after what it depends on. Beside data and control inputs an update of a
/// variable waits for every other reader of the variable, fetches included, and for earlier updates of it; otherwise it
/// comes as early as it can, so that gradients die at once. So do what communicates, what is computed of that, and
/// swaps, but that a swap-in which nothing later than its swap-out starts comes just before its first reader. With
/// `initial_values_first` the initial assignment of a variable comes before its readers instead. Throws: ArgumentError
/// naming a cycle, or a placeholder that is not fed.
std::vector<NodeId> execution_order(const ConcreteGraph& graph, const std::vector<bool>& needed,
                                    bool initial_values_first = false);

/// Writes the instruction list of the whole graph: everything once, in execution order; feeds and constants just before
/// their first reader, fetches as soon as their value is there.
InstructionList build_schedule(const ConcreteGraph& graph, const RunRequest& request);

/// Whether the node only brings a value in, and may do so at any time: placeholders, constants, random numbers.
bool is_source(const Node& node);
/// Whether the node is a step of its own: neither a variable nor a group.
bool is_step(const Node& node);

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// How many ranks the graph's updates are of: what kRanks says; 1 where it says nothing. Throws: ArgumentError
/// (SF-E036) where a graph from a file has a collection that says no number, or several.
int ranks_of(const Graph& graph);

/// Whether a step of it communicates.
bool communicates(const Schedule& schedule);

/// Throws: ArgumentError (SF-E036) where a training step of several ranks would leave them with different variables, or
/// with others than one process has that takes their batches as micro-batches: for an update by what a rank has for
/// itself alone, such as a value of its batch, and for a moving average that the step also reads, since the second
/// micro-batch would read what the first has left.
void check_equal_updates(const Schedule& schedule, const ConcreteGraph& graph);

}  // namespace sectionflow

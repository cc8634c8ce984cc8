#pragma once

#include <set>

#include "base/export.h"
#include "graph/nodes/update.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// Whether a step of it communicates.
bool communicates(const Schedule& schedule);

/// The shards of the graph that another rank has all of: Signature::elsewhere.
std::set<NodeId> held_elsewhere(Graph& graph, int rank);

/// What ranks get in common by an operation that communicates: the bytes of a sum, be it in shards, or of what is
/// gathered.
std::size_t exchanged_bytes(const ConcreteGraph& graph, NodeId node);

/// Throws: ArgumentError (SF-E036) unless what communicates is of as many ranks as the graph's updates.
void check_communications(const Schedule& schedule, const Graph& graph);

/// Throws: ArgumentError (SF-E036) where a training step of several ranks would leave them with different variables, or
/// with others than one process has that takes their batches as micro-batches: for an update by what a rank has for
/// itself alone, such as a value of its batch; for one that neither belongs to training_updates nor moves an average by
/// what all ranks have, since ranks execute it once where one process does so with every micro-batch; and for a moving
/// average that the step also reads, since the second micro-batch would read what the first has left.
void check_equal_updates(const Schedule& schedule, const ConcreteGraph& graph);

}  // namespace sectionflow

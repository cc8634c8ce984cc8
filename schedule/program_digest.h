#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "schedule/planning_tools.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

struct Program;

/// A node by its number, and which of all that ever had the number: none by itself.
struct NodeStamp {
  NodeId id = -1;
  std::uint64_t serial = 0;

  /// Whether the node, and with it every older one, is still in the graph.
  bool is_in(const Graph& graph) const {
    return id < 0 || (id < graph.num_nodes() && graph.node(id).serial() == serial);
  }
};

/// What the forward half of a cycle takes, for statistics; all 0 where there is no half.
struct ForwardHalfFigures {
  std::array<std::size_t, kNumTiers> ends{};  ///< by tier: where its highest storage ends, in the planned region
  std::size_t largest_device_bytes = 0;       ///< of a storage
  std::size_t waiting_device_bytes = 0;       ///< what waits on the device for the backward half
  std::size_t bytes_out = 0;                  ///< copied to the host
  std::int64_t num_ended = 0;                 ///< storages that the backward half does not have
};

/// What each execution asks of a program as a whole, found out when it is compiled: so that it looks at steps to
/// execute them and for nothing else. Lists of steps rise.
struct ProgramDigest {
  NodeStamp newest{};                     ///< of the nodes that it knows
  NodeId first_unplaced = -1;             ///< the first variable that it names and that has no place; -1: none
  std::vector<StepIndex> pass_begins;     ///< steps of another pass than the step before them
  std::vector<StepIndex> beside;          ///< steps that threads beside the caller's execute
  std::vector<StepIndex> communications;  ///< steps that communicate
  std::vector<StepIndex> feeds;           ///< steps that copy feeds in
  std::vector<StepIndex> fetches;         ///< steps that copy fetches out
  std::vector<StepIndex> assertions;      ///< steps of assertions that are looked at: not where they are replayed
  std::size_t largest_device_bytes = 0;   ///< of a storage
  ForwardHalfFigures forward{};
};

/// Those of a rising list of steps that lie in [first, last).
std::span<const StepIndex> steps_between(const std::vector<StepIndex>& steps, StepIndex first, StepIndex last);

/// The digest of a program that has its schedule, storages and plan. `has_queues`: those of its device carry copies.
ProgramDigest digest_of(const Program& program, const Graph& graph, const VariableLayout& variables, bool has_queues);

}  // namespace sectionflow

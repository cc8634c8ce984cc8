#pragma once

#include <optional>
#include <vector>

#include "swap/lms_levels.h"

namespace sectionflow {

/// The four numbers that decide where a graph is swapped.
struct LmsParameters {
  int threshold = 1;
  int ahead = 1;
  int groupby = 0;
  int sync_mode = 0;

  bool syncs_out() const { return sync_mode == 1 || sync_mode == 3; }
  bool syncs_in() const { return sync_mode >= 2; }
  friend bool operator==(const LmsParameters&, const LmsParameters&) = default;
};

/// Readers that share a swap-in, by level, then number: the first is the one that the swap-in must be in time for.
struct SwapGroup {
  NodeSet destinations;
  NodeId first() const { return destinations.front(); }
};

/// A tensor that leaves the device.
struct SwapTensor {
  Value tensor;
  std::vector<SwapGroup> groups;
};

/// The readers of a tensor that are to read a swapped-in copy of it: farther than the threshold. By level, then number.
/// Empty for what is never swapped: scalars and vectors, and outputs of nodes that may be no source.
NodeSet far_destinations(const LmsGraph& graph, const LmsLevels& levels, Value tensor, int threshold);
/// Splits readers where the level rises by more than `groupby`; each by itself where that is not positive.
std::vector<SwapGroup> grouped(const LmsLevels& levels, const NodeSet& destinations, int groupby);
/// All tensors to swap, by number. Sync modes 2 and 3 do not group.
std::vector<SwapTensor> swap_tensors(const LmsGraph& graph, const LmsLevels& levels, const LmsParameters& parameters);

/// The control operation of a swap-in: the node after which it begins. Of the ten levels below level(destination) -
/// ahead, but above the source, the highest with a node from which data flows to the destination; the lowest number in
/// it. None where there is no such node. Nodes that follow an update do not count: readers of the swapped-in copy may
/// be what that update waits for.
std::optional<NodeId> find_trigger(const LmsGraph& graph, const LmsLevels& levels, NodeId source, NodeId destination,
                                   int ahead);

}  // namespace sectionflow

#pragma once

#include <functional>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {

/// Index of a section among its manager's; kOutside stands outside of all.
using SectionIndex = int;
inline constexpr SectionIndex kOutside = -1;

/// Which part of a training cycle each node belongs to, by the node's number.
///
/// Forward nodes belong to the section in which they were made. Backward nodes are those that training added (gradients,
/// updates) and what depends on their values; each is executed in the backward run of one section: a gradient in that of
/// the forward node it differentiates, or a later run where it waits for values of one; an update in the run of the
/// lowest section that reads the variable, so that every reader sees the old value.
struct SectionMap {
  int num_sections = 0;
  std::vector<SectionIndex> section;       ///< of the node's group
  std::vector<bool> backward;
  std::vector<SectionIndex> backward_run;  ///< for backward nodes

  bool is_forward(NodeId id) const { return !backward[static_cast<std::size_t>(id)]; }
};

/// `groups`: the sections' groups in order. `reads(id)`: the values whose elements node `id` reads. Nodes for which
/// `needed` is false bind no update.
SectionMap map_sections(const Graph& graph, const std::vector<GroupId>& groups, const std::vector<bool>& needed,
                        const std::function<std::vector<Value>(NodeId)>& reads);

/// The values that a node may read under any feed: all inputs but those used for their shape alone.
std::vector<Value> possible_reads(const Node& node);

}  // namespace sectionflow

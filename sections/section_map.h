#pragma once

#include <functional>
#include <map>
#include <vector>

#include "graph/graph.h"
#include "sections/section_options.h"

namespace sectionflow {

/// Which part of a training cycle each node belongs to, by the node's number.
///
/// Forward nodes belong to the section in which they were made. Backward nodes are those that training added
/// (gradients, updates) and what reads or waits for them; each is executed in the backward run of one section: a
/// gradient in that of the forward node it differentiates, or a later run where it waits for values of one; an update
/// in the run of the lowest section that reads the variable, so that every reader sees the old value.
struct SectionMap {
  int num_sections = 0;
  std::vector<SectionIndex> section;  ///< of the node's group
  std::vector<bool> backward;
  std::vector<SectionIndex> backward_run;  ///< for backward nodes

  bool is_forward(NodeId id) const { return !backward[static_cast<std::size_t>(id)]; }
};

/// `groups`: the sections' groups in order. `reads(id)`: the values whose elements node `id` reads. Nodes for which
/// `needed` is false bind no update. `executed_lower`: forward nodes that are executed in the backward run of a lower
/// section than their own, and in which.
SectionMap map_sections(const Graph& graph, const std::vector<GroupId>& groups, const std::vector<bool>& needed,
                        const std::function<std::vector<Value>(NodeId)>& reads,
                        const std::map<NodeId, SectionIndex>& executed_lower = {});

/// The values that a node may read under any feed: all inputs but those used for their shape alone.
std::vector<Value> possible_reads(const Node& node);

/// Where a fetch of a full cycle is evaluated: outside of sections and independent of them, in the forward pass; inside
/// a section, in its backward run; outside but dependent on sections, in the backward run of the lowest of those that
/// it reads from. A variable is fetched in the forward pass: before any update.
SectionIndex evaluation_run(const SectionMap& map, Value fetch);

/// Whether what stands outside of all sections makes the loss of single numbers, beside what is fed: the sum of several
/// sections' losses is kept for next to nothing, a mean of all that a section has computed is not.
bool is_made_of_numbers(const SectionMap& map, Value loss);

}  // namespace sectionflow

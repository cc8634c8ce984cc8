#pragma once

#include "swap/lms_log.h"

namespace sectionflow {

/// Makes swaps wait, and others wait for them, in a graph that has its swap nodes. Of all swap nodes, whoever made
/// them.
class LmsSync {
 public:
  /// `graph` and `levels` are of before the swap nodes.
  LmsSync(Graph& edited, const LmsGraph& graph, const LmsLevels& levels, LmsLog& log);

  /// An order edge.
  void wait(NodeId before, NodeId after);

  /// What directly follows a swapped node waits for the swap-out, unless that closes a circle.
  void all_swap_outs();
  /// Each swap-in as swap_in().
  void all_swap_ins();
  /// A swap-in with one reader waits for everything else that the reader reads or waits for; where that is nothing, for
  /// the nodes of the level below the reader. One with several readers waits for nothing.
  void swap_in(NodeId id);

 private:
  /// No node above this level comes before it.
  int level_above(NodeId id) const;
  bool leads_to(NodeId from, NodeId to);
  bool is_ordered(NodeId a, NodeId b) { return leads_to(a, b) || leads_to(b, a); }
  const NodeSet& before(NodeId id) const { return before_[static_cast<std::size_t>(id)]; }
  const NodeSet& after(NodeId id) const { return after_[static_cast<std::size_t>(id)]; }

  Graph* edited_;
  const LmsGraph* graph_;
  const LmsLevels* levels_;
  LmsLog* log_;
  std::vector<NodeSet> before_, after_;  // what each node directly waits for, for data or in order; and the reverse
  /// Levels rise along every path between nodes of `graph`, whatever is made to wait for what: a search need not go
  /// above the level that it is for. Only swap nodes of others may be made to wait for what is above them.
  bool levels_rise_ = true;
  std::vector<int> visited_;  // by node: the number of the search that has come by last
  int visit_ = 0;
};

}  // namespace sectionflow

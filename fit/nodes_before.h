#pragma once

#include <map>
#include <set>

#include "schedule/concrete_graph.h"

namespace sectionflow {

/// The nodes with instructions of which a node must be executed after, or reads: through groups, variables and nodes
/// that are no step. What is given must outlive it.
class NodesBefore {
 public:
  /// `operation_of`: of the nodes that have instructions.
  NodesBefore(const ConcreteGraph& graph, const std::map<NodeId, int>& operation_of)
      : concrete_(graph), graph_(graph.graph()), operation_of_(operation_of) {}

  /// Operations that must come before the node, but for those that make what it reads.
  std::set<int> of(NodeId id);

 private:
  void add_edges_of(NodeId id, std::set<int>& operations);
  void add(NodeId id, std::set<int>& operations);

  const ConcreteGraph& concrete_;
  const Graph& graph_;
  const std::map<NodeId, int>& operation_of_;
  std::map<NodeId, std::set<int>> seen_;
};

}  // namespace sectionflow

#pragma once

#include <functional>
#include <ostream>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which nodes each node depends on: the edges that an algorithm is to see, stored densely.
class DependencyGraph {
 public:
  /// All data, control and order inputs of a graph.
  explicit DependencyGraph(const Graph& graph);
  /// Any edges between the nodes of a graph: `dependencies[id]` are the nodes that node `id` depends on.
  DependencyGraph(const Graph& graph, const std::vector<std::vector<NodeId>>& dependencies);

  const Graph& graph() const { return *graph_; }
  int num_nodes() const { return static_cast<int>(begin_.size()) - 1; }
  int num_edges() const { return static_cast<int>(target_.size()); }
  /// Edges of a node: the half-open range of edge numbers.
  int first_edge(NodeId id) const { return begin_[static_cast<std::size_t>(id)]; }
  int end_edge(NodeId id) const { return begin_[static_cast<std::size_t>(id) + 1]; }
  NodeId edge_source(int edge) const { return source_[static_cast<std::size_t>(edge)]; }
  NodeId edge_target(int edge) const { return target_[static_cast<std::size_t>(edge)]; }

 private:
  const Graph* graph_;
  std::vector<int> begin_;
  std::vector<NodeId> source_, target_;
};

/// All nodes such that each comes after what it depends on: by node number, but that a node which waits for one of a
/// higher number brings that one, and what it depends on in turn, forward to just before itself.
/// Throws: ArgumentError with one cycle as "a -> b -> a": b waits for a, and a for b.
std::vector<NodeId> topological_order(const DependencyGraph& graph);

/// For each node the length of the longest chain of dependencies below it: 0 for those that depend on nothing.
/// Throws: as topological_order.
std::vector<int> levels(const DependencyGraph& graph);

/// For each node whether one of `roots` is it or depends on it, directly or not.
std::vector<bool> reachable(const DependencyGraph& graph, const std::vector<NodeId>& roots);

/// Writes the graph in Graphviz's DOT language, edges in the direction of the data, one colour a group.
void write_dot(std::ostream& stream, const Graph& graph);

}  // namespace sectionflow

#include "fit/nodes_before.h"

#include <utility>

#include "graph/graph.h"

namespace sectionflow {

std::set<int> NodesBefore::of(NodeId id) {
  std::set<int> operations;
  add_edges_of(id, operations);
  return operations;
}

/// An identity stands with what makes its input: what it must follow, its readers must.
void NodesBefore::add_edges_of(NodeId id, std::set<int>& operations) {
  const Node& node = graph_.node(id);
  for (const Node* other : node.control_inputs()) add(other->id(), operations);
  for (const Node* other : node.order_inputs()) add(other->id(), operations);
  for (const Value& input : node.inputs()) {
    const NodeId read = input.node().id();
    if (operation_of_.contains(read) && concrete_.is_identity(read)) add_edges_of(read, operations);
  }
}

void NodesBefore::add(NodeId id, std::set<int>& operations) {
  const auto found = operation_of_.find(id);
  if (found != operation_of_.end()) {
    operations.insert(found->second);
    return;
  }
  if (!seen_.try_emplace(id).second) {
    const std::set<int>& known = seen_.at(id);
    operations.insert(known.begin(), known.end());
    return;
  }
  std::set<int> through;
  const Node& node = graph_.node(id);
  for (const Node* other : node.control_inputs()) add(other->id(), through);
  for (const Value& input : node.inputs()) add(input.node().id(), through);
  operations.insert(through.begin(), through.end());
  seen_[id] = std::move(through);
}

}  // namespace sectionflow

#include "swap/lms_sync.h"

#include <algorithm>
#include <utility>

#include "graph/op_def.h"
#include "graph/ops/identities.h"

namespace sectionflow {
namespace {

bool is_gpu(const Node& node) {
  return node.op().movement == Movement::none;
}

}  // namespace

LmsSync::LmsSync(Graph& edited, const LmsGraph& graph, const LmsLevels& levels, LmsLog& log)
    : edited_(&edited),
      graph_(&graph),
      levels_(&levels),
      log_(&log),
      before_(static_cast<std::size_t>(edited.num_nodes())),
      after_(before_.size()),
      visited_(before_.size(), 0) {
  for (NodeId id = 0; id < graph.num_nodes(); ++id) levels_rise_ = levels_rise_ && is_gpu(edited.node(id));
  for (NodeId id = 0; id < edited.num_nodes(); ++id) {
    NodeSet& inputs = before_[static_cast<std::size_t>(id)];
    const Node& node = edited.node(id);
    for (const Value& input : node.inputs()) inputs.push_back(input.node().id());
    for (const Node* earlier : node.control_inputs()) inputs.push_back(earlier->id());
    for (const Node* earlier : node.order_inputs()) inputs.push_back(earlier->id());
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    for (NodeId earlier : inputs) after_[static_cast<std::size_t>(earlier)].push_back(id);
  }
}

int LmsSync::level_above(NodeId id) const {
  if (!levels_rise_) return levels_->count();
  if (id < graph_->num_nodes()) return levels_->of(id);
  int highest = -1;
  for (NodeId earlier : before(id)) highest = std::max(highest, level_above(earlier));
  return highest;
}

bool LmsSync::leads_to(NodeId from, NodeId to) {
  const int highest = level_above(to);
  ++visit_;
  std::vector<NodeId> pending = {from};
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (id == to) return true;
    for (NodeId other : after(id)) {
      const bool is_beyond = other < graph_->num_nodes() && levels_->of(other) > highest;
      int& visited = visited_[static_cast<std::size_t>(other)];
      if (is_beyond || std::exchange(visited, visit_) == visit_) continue;
      pending.push_back(other);
    }
  }
  return false;
}

void LmsSync::wait(NodeId before, NodeId after) {
  edited_->add_order_edge(Operation(edited_->node(before)), Operation(edited_->node(after)));
  before_[static_cast<std::size_t>(after)].push_back(before);
  after_[static_cast<std::size_t>(before)].push_back(after);
}

void LmsSync::all_swap_outs() {
  for (const Operation& swap : swap_nodes(*edited_)) {
    const NodeId id = swap.node().id();
    if (swap.node().op().movement != Movement::out) continue;
    const NodeId source = swap.node().inputs().front().node().id();
    if (!is_gpu(edited_->node(source))) continue;
    NodeSet readers = after(source);
    std::erase_if(readers, [&](NodeId reader) {
      const bool is_valid = reader >= graph_->num_nodes() || graph_->is_valid(reader);
      return !is_gpu(edited_->node(reader)) || !is_valid || is_ordered(id, reader);
    });
    for (NodeId reader : readers) {
      log_->detail(1, 2, edited_->node(reader).name(), " waits for ", swap.name());
      wait(id, reader);
    }
  }
}

void LmsSync::all_swap_ins() {
  for (const Operation& swap : swap_nodes(*edited_)) {
    if (swap.node().op().movement == Movement::in) swap_in(swap.node().id());
  }
}

void LmsSync::swap_in(NodeId id) {
  NodeSet readers = after(id);
  std::erase_if(readers, [&](NodeId reader) { return !is_gpu(edited_->node(reader)); });
  if (readers.size() != 1) {
    log_->detail(1, 2, edited_->node(id).name(), " has ", readers.size(), " readers: not synchronised");
    return;
  }
  const NodeId reader = readers.front();
  // Swap nodes are numbered above all that `graph_` and `levels_` know.
  const auto cannot_wait_for = [&](NodeId other) {
    return other >= graph_->num_nodes() || !graph_->is_gpu(other) || !graph_->is_valid(other) ||
           graph_->follows_update(other);
  };
  NodeSet wanted = before(reader);
  std::erase_if(wanted, cannot_wait_for);
  if (wanted.empty() && levels_->of(reader) > 0) {
    wanted = levels_->nodes[static_cast<std::size_t>(levels_->of(reader) - 1)];
    std::erase_if(wanted, cannot_wait_for);
  }
  // Before the first of them is waited for: searches then end at the level of the swapped node.
  std::erase_if(wanted, [&](NodeId other) { return is_ordered(other, id); });
  for (NodeId other : wanted) {
    log_->control_edge(*edited_, *levels_, other, id, reader);
    wait(other, id);
  }
}

}  // namespace sectionflow

#include "sections/forward_places.h"

#include <algorithm>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

/// Calls `visit` for all that a node reads or waits for.
template <class Visit>
void each_source(const Node& node, const Visit& visit) {
  for (const Value& input : node.inputs()) visit(input.node());
  for (const Node* control : node.control_inputs()) visit(*control);
}

/// What the loss needs that is computed.
std::vector<bool> needed_for(const Graph& graph, Value loss) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.num_nodes()), false);
  std::vector<const Node*> pending = {&loss.node()};
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    if (node.op().is_given() || needed[node.id()]) continue;
    needed[node.id()] = true;
    each_source(node, [&](const Node& source) { pending.push_back(&source); });
  }
  return needed;
}

class Placing {
 public:
  Placing(const Graph& graph, Value loss)
      : graph_(graph), needed_(needed_for(graph, loss)), is_backward_(needed_.size(), false) {
    places_.place_of.assign(needed_.size(), ForwardPlaces::kNowhere);
  }

  ForwardPlaces placed() {
    for (NodeId id : topological_order(DependencyGraph(graph_))) place(id);
    place_variables();
    return std::move(places_);
  }

 private:
  void place(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op().is_given()) return;
    int highest_forward = ForwardPlaces::kNowhere, highest = ForwardPlaces::kNowhere;
    bool follows_backward = node.phase() == Phase::training || node.op().recompute == Recompute::once;
    each_source(node, [&](const Node& source) {
      const int place = places_.place_of[source.id()];
      highest = std::max(highest, place);
      if (!is_backward_[source.id()]) highest_forward = std::max(highest_forward, place);
      follows_backward = follows_backward || is_backward_[source.id()];
    });
    is_backward_[id] = follows_backward;
    if (needed_[id] && !follows_backward) {
      places_.place_of[id] = places_.num_places();
      places_.operations.push_back(id);
    } else {
      // A gradient that the loss depends on belongs to what it differentiates.
      places_.place_of[id] = follows_backward && highest_forward >= 0 ? highest_forward : highest;
    }
  }

  void place_variables() {
    std::vector<int>& place_of = places_.place_of;
    for (NodeId operation : places_.operations) {
      for (const Value& input : graph_.node(operation).inputs()) {
        int& place = place_of[input.node().id()];
        if (is_variable(input) && place == ForwardPlaces::kNowhere) place = place_of[operation];
      }
    }
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      const bool is_given_values = node.op().is_variable() && constant_content(node.output()) == nullptr;
      if (is_given_values && place_of[id] >= 0) place_initial_value(node);
    }
  }

  void place_initial_value(Node& variable) {
    std::vector<const Node*> pending = {&initializer_of(variable.output()).node()};
    while (!pending.empty()) {
      const Node& node = *pending.back();
      pending.pop_back();
      int& place = places_.place_of[node.id()];
      if (node.op().is_given() || place >= 0) continue;
      place = places_.place_of[variable.id()];
      each_source(node, [&](const Node& source) { pending.push_back(&source); });
    }
  }

  const Graph& graph_;
  const std::vector<bool> needed_;
  std::vector<bool> is_backward_;
  ForwardPlaces places_;
};

}  // namespace

ForwardPlaces forward_places(const Graph& graph, Value loss) {
  return Placing(graph, loss).placed();
}

}  // namespace sectionflow

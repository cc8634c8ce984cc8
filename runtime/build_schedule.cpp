#include "runtime/build_schedule.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

using Dependencies = std::vector<std::vector<NodeId>>;

/// Readers before updates, and updates of one variable in the order of their numbers.
void add_update_edges(const ConcreteGraph& graph, const std::vector<bool>& needed, Dependencies& dependencies) {
  std::map<NodeId, std::vector<NodeId>> readers, updates;  // by variable
  for (NodeId id = 0; id < static_cast<NodeId>(needed.size()); ++id) {
    if (!needed[id]) continue;
    const Node& node = graph.graph().node(id);
    for (int index : node.op().updated_inputs) updates[node.inputs()[index].node().id()].push_back(id);
    for (const Value& value : graph.reads(id)) {
      if (is_variable(value)) readers[value.node().id()].push_back(id);
    }
  }
  for (const auto& [variable, updating] : updates) {
    for (std::size_t i = 1; i < updating.size(); ++i) dependencies[updating[i]].push_back(updating[i - 1]);
    for (NodeId reader : readers[variable]) {
      if (std::find(updating.begin(), updating.end(), reader) != updating.end()) continue;
      for (NodeId update : updating) dependencies[update].push_back(reader);
    }
  }
}

/// Whether the node's value is there at any time and costs nothing to wait for: variables, feeds, constants.
bool is_at_hand(const Node& node) {
  const bool from_home = node.op().name == "variable" || node.op().name == "placeholder" || node.op().is_constant;
  return from_home && node.inputs().empty() && node.control_inputs().empty();
}

/// Moves each update to the place just after the last node that it waits for, and what is at hand to the front: a
/// learning rate that is made after all gradients must not hold the updates back.
std::vector<NodeId> hoist_updates(const Graph& graph, const std::vector<NodeId>& order,
                                  const Dependencies& dependencies) {
  // (place in `order` to come after, 1 for hoisted updates, own place in `order`): the new order is that of these keys.
  std::map<NodeId, std::tuple<int, int, int>> keys;
  int place = 0;
  for (NodeId id : order) {
    ++place;
    if (is_at_hand(graph.node(id))) {
      keys[id] = {0, 0, place};
      continue;
    }
    if (!is_update(graph.node(id))) {
      keys[id] = {place, 0, place};
      continue;
    }
    int last = 0;
    for (NodeId dependency : dependencies[id]) {
      const auto found = keys.find(dependency);
      if (found != keys.end()) last = std::max(last, std::get<0>(found->second));
    }
    keys[id] = {last, 1, place};
  }
  std::vector<NodeId> hoisted = order;
  std::sort(hoisted.begin(), hoisted.end(), [&](NodeId a, NodeId b) { return keys[a] < keys[b]; });
  return hoisted;
}

}  // namespace

bool is_update(const Node& node) {
  return !node.op().updated_inputs.empty();
}

bool is_source(const Node& node) {
  const bool brings_value = node.op().name == "placeholder" || node.op().has_kernel;
  return brings_value && node.inputs().empty() && node.control_inputs().empty();
}

bool is_step(const Node& node) {
  return node.op().has_kernel || node.op().name == "placeholder";
}

std::vector<NodeId> execution_order(const ConcreteGraph& graph, const std::vector<bool>& needed) {
  Dependencies dependencies(needed.size());
  for (NodeId id = 0; id < static_cast<NodeId>(needed.size()); ++id) {
    if (!needed[id]) continue;
    for (const Value& value : graph.reads(id)) dependencies[id].push_back(value.node().id());
    for (const Node* control : graph.graph().node(id).control_inputs()) {
      if (needed[control->id()]) dependencies[id].push_back(control->id());
    }
    for (const Node* earlier : graph.graph().node(id).order_inputs()) {
      if (needed[earlier->id()]) dependencies[id].push_back(earlier->id());
    }
  }
  add_update_edges(graph, needed, dependencies);
  std::vector<NodeId> order = topological_order(DependencyGraph(graph.graph(), dependencies));
  std::erase_if(order, [&](NodeId id) { return !needed[id]; });
  return hoist_updates(graph.graph(), order, dependencies);
}

Script build_schedule(const ConcreteGraph& graph, const RunRequest& request) {
  Script script;
  script.passes = {Pass{}};
  std::multimap<Value, int> fetch_slots;
  for (std::size_t i = 0; i < request.fetches.size(); ++i) fetch_slots.emplace(request.fetches[i], static_cast<int>(i));
  std::vector<bool> emitted(static_cast<std::size_t>(graph.graph().num_nodes()), false);

  const auto emit_fetches = [&](Node& node) {
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const auto [begin, end] = fetch_slots.equal_range(node.output(output));
      for (auto fetch = begin; fetch != end; ++fetch) {
        script.lines.push_back({.kind = StepKind::fetch, .fetched = fetch->first, .fetch_slot = fetch->second});
      }
    }
  };
  const auto emit = [&](NodeId id) {
    if (emitted[id]) return;
    emitted[id] = true;
    Node& node = graph.graph().node(id);
    if (is_step(node)) {
      const StepKind kind = node.op().has_kernel ? StepKind::compute : StepKind::feed;
      script.lines.push_back({.kind = kind, .node = id});
    }
    emit_fetches(node);
  };

  const std::vector<NodeId> order = execution_order(graph, graph.needed(request.fetches, request.targets));
  // A fetched variable gives its value from before any update.
  for (NodeId id : order) {
    if (graph.graph().node(id).op().name == "variable") emit(id);
  }
  for (NodeId id : order) {
    if (is_source(graph.graph().node(id))) continue;
    for (const Value& value : graph.reads(id)) {
      if (is_source(value.node())) emit(value.node().id());
    }
    emit(id);
  }
  // Sources that nothing reads are there for their fetch, or as targets.
  for (NodeId id : order) emit(id);
  script.half = static_cast<int>(script.lines.size());
  return script;
}

}  // namespace sectionflow

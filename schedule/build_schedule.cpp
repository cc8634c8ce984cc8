#include "schedule/build_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "graph/ops/basic.h"
#include "graph/traversal.h"
#include "schedule/put_off_readers.h"

namespace sectionflow {
namespace {

using Dependencies = std::vector<std::vector<NodeId>>;

/// Has the initial assignment of a variable come first, before its other updates and its readers. Gives back those of
/// `updating` that readers come before.
std::vector<NodeId> after_initial_value(Value variable, const std::vector<NodeId>& updating,
                                        const std::vector<NodeId>& readers, Dependencies& dependencies) {
  const NodeId first = initializer_of(variable).node().id();
  std::vector<NodeId> later = updating;
  if (std::erase(later, first) == 0) return later;
  if (!later.empty()) dependencies[later.front()].push_back(first);
  for (NodeId reader : readers) {
    if (reader != first) dependencies[reader].push_back(first);
  }
  return later;
}

/// Readers before updates, and updates of one variable in the order of their numbers.
void add_update_edges(const ConcreteGraph& graph, const std::vector<bool>& needed, bool initial_values_first,
                      Dependencies& dependencies) {
  std::map<NodeId, std::vector<NodeId>> readers, updates;  // by variable
  for (NodeId id = 0; id < static_cast<NodeId>(needed.size()); ++id) {
    if (!needed[id]) continue;
    const Node& node = graph.graph().node(id);
    for (int index : node.op().updated_inputs) updates[node.inputs()[index].node().id()].push_back(id);
    for (const Value& value : graph.reads(id)) {
      if (is_variable(value)) readers[value.node().id()].push_back(id);
    }
  }
  for (const auto& [variable, all] : updates) {
    const std::vector<NodeId> updating =
        initial_values_first
            ? after_initial_value(graph.graph().node(variable).output(), all, readers[variable], dependencies)
            : all;
    for (std::size_t i = 1; i < updating.size(); ++i) dependencies[updating[i]].push_back(updating[i - 1]);
    for (NodeId reader : readers[variable]) {
      if (std::find(updating.begin(), updating.end(), reader) != updating.end()) continue;
      for (NodeId update : updating) dependencies[update].push_back(reader);
    }
  }
}

/// Whether the node's value is there at any time and costs nothing to wait for: variables, feeds, constants.
bool is_at_hand(const Node& node) {
  return node.op().is_given() && node.inputs().empty() && node.control_inputs().empty();
}

/// Sorts nodes anew: by the place in the old order to come after, then by how (0: that node itself; 1: what was moved
/// up to it; 2: what must be there for the next), then by the own place.
using OrderKey = std::tuple<int, int, int>;

/// Decides where each node of an order stands in the new one.
class Hoisting {
 public:
  Hoisting(const Graph& graph, const std::vector<NodeId>& order, const Dependencies& dependencies)
      : graph_(graph), dependencies_(dependencies) {
    int place = 0;
    for (NodeId id : order) {
      ++place;
      for (NodeId dependency : dependencies[id]) first_reader_.try_emplace(dependency, place);
    }
    place = 0;
    for (NodeId id : order) {
      const auto& needed = dependencies[id];
      const bool follows =
          std::any_of(needed.begin(), needed.end(), [&](NodeId each) { return follows_.contains(each); });
      if (follows || graph.node(id).op().communicates) follows_.insert(id);
      keys_[id] = key(id, ++place);
    }
  }

  const OrderKey& key(NodeId id) const { return keys_.at(id); }

 private:
  OrderKey key(NodeId id, int place) const {
    const Node& node = graph_.node(id);
    if (is_at_hand(node)) return {0, 0, place};
    const bool is_early = node.op().is_update() || node.op().movement != Movement::none || follows_.contains(id);
    if (!is_early) return {place, 0, place};
    OrderKey last{0, 0, 0}, last_trigger{0, 0, 0}, offload{0, 0, 0};
    for (NodeId dependency : dependencies_[id]) {
      const auto found = keys_.find(dependency);
      if (found == keys_.end()) continue;
      const bool is_offload =
          node.op().movement == Movement::in && graph_.node(dependency).op().movement == Movement::out;
      last = std::max(last, found->second);
      OrderKey& of_kind = is_offload ? offload : last_trigger;
      of_kind = std::max(of_kind, found->second);
    }
    const auto reader = first_reader_.find(id);
    // A swap-in that would directly follow its swap-out, since nothing later starts it, waits for its reader.
    if (node.op().movement == Movement::in && last_trigger < offload && reader != first_reader_.end()) {
      return {reader->second - 1, 2, place};
    }
    return {std::get<0>(last), std::max(1, std::get<1>(last)), place};
  }

  const Graph& graph_;
  const Dependencies& dependencies_;
  std::map<NodeId, int> first_reader_;  // the place of the first that depends on a node
  std::map<NodeId, OrderKey> keys_;
  std::set<NodeId> follows_;  // what communicates, and what is computed of it
};

/// Moves each update, each swap, what communicates and what is computed of that to the place just after the last node
/// that it waits for, and what is at hand to the front: a learning rate that is made after all gradients must not hold
/// the updates back.
std::vector<NodeId> hoist_updates(const Graph& graph, const std::vector<NodeId>& order,
                                  const Dependencies& dependencies) {
  const Hoisting hoisting(graph, order, dependencies);
  std::vector<NodeId> hoisted = order;
  std::sort(hoisted.begin(), hoisted.end(), [&](NodeId a, NodeId b) { return hoisting.key(a) < hoisting.key(b); });
  return hoisted;
}

/// What is offloaded to the host is there for swap-ins alone.
void check_offloaded_is_not_read(const Node& reader) {
  if (reader.op().movement == Movement::in) return;
  for (const Value& input : reader.inputs()) {
    SF_CHECK(input.node().op().movement != Movement::out, ArgumentError, reader.label(), " reads '", input.name(),
             "', which is offloaded to the host; wanted a swap_in of it", Fact{"where", reader.place()});
  }
}

}  // namespace

bool is_source(const Node& node) {
  return is_step(node) && node.inputs().empty() && node.control_inputs().empty();
}

bool is_step(const Node& node) {
  return node.op().has_kernel || node.op().is_placeholder();
}

std::vector<NodeId> execution_order(const ConcreteGraph& graph, const std::vector<bool>& needed,
                                    bool initial_values_first) {
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
  add_update_edges(graph, needed, initial_values_first, dependencies);
  std::vector<NodeId> order = topological_order(DependencyGraph(graph.graph(), dependencies));
  std::erase_if(order, [&](NodeId id) { return !needed[id]; });
  return hoist_updates(graph.graph(), order, dependencies);
}

InstructionList build_schedule(const ConcreteGraph& graph, const RunRequest& request) {
  InstructionList list;
  list.passes = {Pass{}};
  std::multimap<Value, int> fetch_slots;
  for (std::size_t i = 0; i < request.fetches.size(); ++i) fetch_slots.emplace(request.fetches[i], static_cast<int>(i));
  std::vector<bool> emitted(static_cast<std::size_t>(graph.graph().num_nodes()), false);
  std::map<NodeId, int> offloads;
  for (const Value& fetch : request.fetches) {
    SF_CHECK(fetch.node().op().movement != Movement::out, ArgumentError, "fetch '", fetch.name(),
             "' is offloaded to the host; wanted a swap_in of it");
  }

  const auto emit_fetches = [&](Node& node) {
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const auto [begin, end] = fetch_slots.equal_range(node.output(output));
      for (auto fetch = begin; fetch != end; ++fetch) {
        list.instructions.push_back({.kind = StepKind::fetch, .fetched = fetch->first, .fetch_slot = fetch->second});
      }
    }
  };
  const auto emit = [&](NodeId id) {
    if (emitted[id]) return;
    emitted[id] = true;
    Node& node = graph.graph().node(id);
    check_offloaded_is_not_read(node);
    if (node.op().movement != Movement::none) {
      const bool is_out = node.op().movement == Movement::out;
      // The number of an offload is that of its swap-out among those of the list.
      const NodeId offload = is_out ? id : node.inputs()[0].node().id();
      const int number = offloads.try_emplace(offload, static_cast<int>(offloads.size())).first->second;
      list.instructions.push_back({.kind = is_out ? StepKind::copy_out : StepKind::copy_in,
                                   .node = id,
                                   .fetched = is_out ? node.inputs()[0] : node.output(),
                                   .offload = number});
    } else if (is_step(node)) {
      const StepKind kind = node.op().has_kernel ? StepKind::compute : StepKind::feed;
      list.instructions.push_back({.kind = kind, .node = id});
    }
    emit_fetches(node);
  };

  const std::vector<NodeId> order =
      execution_order(graph, graph.needed(request.fetches, request.targets), request.gives_initial_values);
  // A fetched variable gives its value from before any update.
  for (NodeId id : order) {
    if (graph.graph().node(id).op().is_variable()) emit(id);
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
  list.half = static_cast<int>(list.instructions.size());
  return put_off_readers(std::move(list), graph);
}

}  // namespace sectionflow

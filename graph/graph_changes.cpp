// Edges and inputs that change in a graph, and what is taken out of it again.

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/nodes/control.h"
#include "graph/op_def.h"

namespace sectionflow {

Graph::Mark Graph::mark() const {
  return {.num_nodes = nodes_.size(),
          .num_control_edges = control_edges_.edges.size(),
          .num_order_edges = order_edges_.edges.size(),
          .num_replaced_inputs = replaced_inputs_.size(),
          .num_groups = group_names_.size(),
          .num_undos = undos_.size(),
          .num_scope_names = static_cast<int>(scope_names_.size()),
          .num_collection_entries = num_collection_entries_,
          .model_ordinal = next_model_ordinal_,
          .training_ordinal = next_training_ordinal_};
}

// Allocates nothing: it may run because there is no memory.
void Graph::roll_back(const Mark& before) noexcept {
  call_undos(before.num_undos);
  if (mark() == before) return;
  ++generation_;
  drop_edges(control_edges_, before.num_control_edges);
  drop_edges(order_edges_, before.num_order_edges);
  for (; replaced_inputs_.size() > before.num_replaced_inputs; replaced_inputs_.pop_back()) {
    const ReplacedInput& replaced = replaced_inputs_.back();
    replaced.node->inputs_[replaced.index] = replaced.before;
  }
  const auto drop_entries = [&](auto& collections) {
    for (auto& [name, entries] : collections) {
      while (!entries.empty() && entries.back().number >= before.num_collection_entries) entries.pop_back();
    }
  };
  drop_entries(value_collections_);
  drop_entries(operation_collections_);
  num_collection_entries_ = before.num_collection_entries;
  std::erase_if(scope_names_, [&](const auto& name) { return name.second >= before.num_scope_names; });
  if (training_flag_ != nullptr && static_cast<std::size_t>(training_flag_->id()) >= before.num_nodes) {
    training_flag_ = nullptr;
  }
  if (current_branch_.exists() && static_cast<std::size_t>(current_branch_.choice->id()) >= before.num_nodes) {
    current_branch_ = {};
  }
  const bool names_return = nodes_.size() > before.num_nodes;
  for (; nodes_.size() > before.num_nodes; nodes_.pop_back()) by_name_.erase(by_name_.find(nodes_.back()->name_));
  if (names_return) free_name_number_.clear();
  free_scope_number_.clear();
  free_empty_number_.clear();
  group_names_.resize(std::min(before.num_groups, group_names_.size()));
  if (current_group_ >= num_groups()) current_group_ = kNoGroup;
  next_model_ordinal_ = before.model_ordinal;
  next_training_ordinal_ = before.training_ordinal;
}

void Graph::on_roll_back(std::function<void()> undo) {
  if (open_changes_ > 0) undos_.push_back(std::move(undo));
}

void Graph::call_undos(std::size_t keep) noexcept {
  for (; undos_.size() > keep; undos_.pop_back()) undos_.back()();
}

void Graph::add_edge(const char* kind, Operation before, Operation after, EdgeList& list) {
  SF_CHECK(&before.node().graph() == this && &after.node().graph() == this, ArgumentError, kind, " edge from '",
           before.name(), "' to '", after.name(), "': both must belong to this graph");
  const auto [known, is_new] = list.known.emplace(&before.node(), &after.node());
  if (!is_new) return;
  auto& inputs = after.node().*list.inputs;
  const std::size_t num_inputs = inputs.size();
  try {
    inputs.push_back(&before.node());
    list.edges.emplace_back(&before.node(), &after.node());
  } catch (...) {
    inputs.resize(num_inputs);
    list.known.erase(known);
    throw;
  }
  ++generation_;
}

void Graph::drop_edges(EdgeList& list, std::size_t keep) noexcept {
  for (; list.edges.size() > keep; list.edges.pop_back()) {
    const auto& [before, after] = list.edges.back();
    (after->*list.inputs).pop_back();
    list.known.erase({before, after});
  }
}

void Graph::add_control_edge(Operation before, Operation after) {
  add_edge("control", before, after, control_edges_);
}
void Graph::add_order_edge(Operation before, Operation after) {
  add_edge("order", before, after, order_edges_);
}

void Graph::set_groups(const std::vector<GroupId>& groups) {
  const auto inside = one_at_a_time_.enter("the graph");
  SF_CHECK(groups.size() == nodes_.size(), ArgumentError, "set_groups: ", groups.size(), " groups for ", nodes_.size(),
           " nodes; wanted one for each");
  for (GroupId group : groups) {
    SF_CHECK(group >= kNoGroup && group < num_groups(), ArgumentError, "set_groups: the graph has ", num_groups(),
             " groups; there is no group ", group);
  }
  const auto each_entry = [this](const auto& call) {
    for (auto& collection : value_collections_) std::for_each(collection.second.begin(), collection.second.end(), call);
    for (auto& collection : operation_collections_)
      std::for_each(collection.second.begin(), collection.second.end(), call);
  };
  std::vector<GroupId> nodes_before, entries_before(static_cast<std::size_t>(num_collection_entries_), kNoGroup);
  for (const auto& node : nodes_) nodes_before.push_back(node->group_);
  each_entry([&](const auto& entry) { entries_before[static_cast<std::size_t>(entry.number)] = entry.group; });
  on_roll_back([this, each_entry, nodes_before, entries_before] {
    for (std::size_t id = 0; id < nodes_before.size(); ++id) nodes_[id]->group_ = nodes_before[id];
    each_entry([&](auto& entry) {
      const auto number = static_cast<std::size_t>(entry.number);
      if (number < entries_before.size()) entry.group = entries_before[number];
    });
    ++generation_;
  });
  for (std::size_t id = 0; id < groups.size(); ++id) nodes_[id]->group_ = groups[id];
  each_entry([&](auto& entry) { entry.group = groups[static_cast<std::size_t>(entry.item.node().id())]; });
  ++generation_;
}

std::vector<Graph::InputEdit> Graph::input_edits() const {
  std::vector<InputEdit> edits;
  std::map<std::pair<const Node*, std::size_t>, Value> later;  // what the next edit of an input found there
  for (auto replaced = replaced_inputs_.rbegin(); replaced != replaced_inputs_.rend(); ++replaced) {
    const auto& [node, index, before] = *replaced;
    const auto found = later.try_emplace({node, index}, node->inputs_[index]).first;
    edits.push_back({node->id(), static_cast<int>(index), before, found->second});
    found->second = before;
  }
  std::reverse(edits.begin(), edits.end());
  return edits;
}

void Graph::replace_input(Node& node, int index, Value value) {
  const auto inside = one_at_a_time_.enter("the graph");
  SF_CHECK(&node.graph() == this && &value.graph() == this, ArgumentError, "replace_input of ", node.label(), " by '",
           value.name(), "': both must belong to this graph");
  const auto place = static_cast<std::size_t>(index);
  SF_CHECK(index >= 0 && place < node.inputs_.size(), ArgumentError, "replace_input of ", node.label(), ": it has ",
           node.inputs_.size(), " inputs; there is no input ", index);
  const TensorType& wanted = node.inputs_[place].type();
  SF_CHECK(value.type() == wanted, ArgumentError, "replace_input of ", node.label(), ": input ", index, " is ",
           wanted.text(), ", '", value.name(), "' is ", value.type().text(), "; wanted a value of the same type");
  SF_CHECK(node.op().movement != Movement::out || !value.node().op().is_variable(), ArgumentError, "replace_input of ",
           node.label(), ": '", value.name(), "' is a variable, which is not swapped; wanted what is computed from it");
  SF_CHECK(!is_choice(node), ArgumentError, "replace_input of ", node.label(),
           ": what its branches were built for goes by its flag; wanted another node");
  std::vector<Value> inputs = node.inputs_;
  inputs[place] = value;
  check_branches(node, inputs);
  replaced_inputs_.push_back({&node, place, node.inputs_[place]});
  node.inputs_[place] = value;
  ++generation_;
}

}  // namespace sectionflow

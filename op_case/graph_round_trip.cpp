#include "op_case/graph_round_trip.h"

#include <algorithm>
#include <utility>

#include "graph/graph_file.h"

namespace sectionflow::op_cases {
namespace {

using Failures = std::vector<std::string>;

std::vector<std::pair<NodeId, int>> addresses_of(const std::vector<Value>& values) {
  std::vector<std::pair<NodeId, int>> addresses;
  for (const Value& value : values) addresses.emplace_back(value.node().id(), value.output());
  return addresses;
}

std::vector<NodeId> ids_of(const std::vector<Node*>& nodes) {
  std::vector<NodeId> ids;
  for (const Node* node : nodes) ids.push_back(node->id());
  return ids;
}

void compare_nodes(const Node& a, const Node& b, Failures& failures) {
  const auto demand = [&](bool holds, const char* what) {
    if (!holds) failures.push_back(text_of(a.label(), " has another ", what, " after it was saved and loaded"));
  };
  demand(a.label() == b.label(), "label");
  demand(a.group() == b.group(), "group");
  demand(a.phase() == b.phase(), "phase");
  demand(a.random_ordinal() == b.random_ordinal(), "random ordinal");
  demand(a.output_types() == b.output_types(), "type");
  demand(addresses_of(a.inputs()) == addresses_of(b.inputs()), "input");
  demand(ids_of(a.control_inputs()) == ids_of(b.control_inputs()), "control input");
  demand(a.any_options().type() == b.any_options().type(), "type of options");
}

bool are_same(const CollectedItem& a, const CollectedItem& b) {
  if (a.collection != b.collection || a.group != b.group || a.value.valid() != b.value.valid()) return false;
  return a.value.valid() ? addresses_of({a.value}) == addresses_of({b.value})
                         : a.operation.node().id() == b.operation.node().id();
}

bool have_same_groups(const Graph& a, const Graph& b) {
  if (a.num_groups() != b.num_groups()) return false;
  for (GroupId group = 0; group < a.num_groups(); ++group) {
    if (a.group_name(group) != b.group_name(group)) return false;
  }
  return true;
}

void compare(const Graph& a, const Graph& b, const std::string& text, Failures& failures) {
  const auto demand = [&](bool holds, const char* what) {
    if (!holds) failures.push_back(text_of("the loaded graph has other ", what));
  };
  demand(a.num_nodes() == b.num_nodes(), "numbers of nodes");
  for (NodeId id = 0; id < std::min(a.num_nodes(), b.num_nodes()); ++id) {
    compare_nodes(a.node(id), b.node(id), failures);
  }
  demand(have_same_groups(a, b), "groups");
  demand(a.scope_names() == b.scope_names(), "scopes");
  demand(a.num_control_edges() == b.num_control_edges(), "control edges");
  const auto of_a = a.collected_items(), of_b = b.collected_items();
  demand(std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), are_same), "collections");
  demand(text == graph_text(b), "text");
}

}  // namespace

std::vector<std::string> round_trip_failures(const Graph& graph) {
  const std::string text = graph_text(graph);
  Graph loaded;
  try {
    load_graph_text(loaded, text);
  } catch (const Error& error) {
    return {text_of("the graph's text cannot be loaded: ", error.what(), "\n", text.substr(0, 4000))};
  }
  Failures failures;
  compare(graph, loaded, text, failures);
  return failures;
}

}  // namespace sectionflow::op_cases

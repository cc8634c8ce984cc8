#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "swap/lms.h"

// The graphs of the golden cases: tensors f32[5, 5] of 100 bytes, one output a node. A node of ours that reads nothing
// is of a type that is never swapped, so a placeholder stands below each graph, and all levels are higher by one.

namespace sectionflow::testing_support {

/// A graph whose nodes have short names.
struct NamedGraph {
  Graph graph;
  std::map<std::string, Value> values;
  std::map<const Node*, std::string> names;

  Value add(const std::string& name, Value value) {
    values[name] = value;
    names[&value.node()] = name;
    return value;
  }
  Value at(const std::string& name) const { return values.at(name); }
  std::string name_of(const Node& node) const {
    const auto found = names.find(&node);
    return found == names.end() ? node.name() : found->second;
  }
  Value input(Shape shape = {5, 5}) { return add("in", placeholder(graph, "in", std::move(shape))); }
};

/// f1 -> ... -> fN -> L -> bN -> ... -> b1 -> u, and each b reads its f.
inline void build_mirror_chain(NamedGraph& g, int length) {
  Value x = g.input();
  const auto name = [](const char* kind, int number) { return text_of(kind, number); };
  for (int k = 1; k <= length; ++k) x = g.add(name("f", k), relu(x));
  x = g.add("L", relu(x));
  for (int k = length; k >= 1; --k) x = g.add(name("b", k), sectionflow::add(x, g.at(name("f", k))));
  const Value v = g.add("v", variable("v", fill(g.graph, {5, 5}, 0)));
  assign(v, x);
}

/// a -> n1 -> ... -> n12, and a feeds n3, n4, n8 and n12 too.
inline void build_fan(NamedGraph& g) {
  const Value a = g.add("a", relu(g.input()));
  Value x = a;
  for (int k = 1; k <= 12; ++k) {
    const bool reads_a = k == 3 || k == 4 || k == 8 || k == 12;
    x = g.add(text_of("n", k), reads_a ? sectionflow::add(x, a) : relu(x));
  }
}

/// a -> x, y, z -> j; a is the placeholder.
inline void build_diamond(NamedGraph& g, Shape shape = {5, 5}) {
  const Value a = g.input(std::move(shape));
  std::vector<Value> parts;
  for (const char* name : {"x", "y", "z"}) parts.push_back(g.add(name, relu(a)));
  g.add("j", add_n(parts));
}

/// The swap-ins of a graph: by the names of their readers, joined by a blank, what they wait for besides their
/// swap-out.
inline std::map<std::string, std::string> triggers(const NamedGraph& g) {
  std::map<NodeId, std::string> readers;
  for (NodeId id = 0; id < g.graph.num_nodes(); ++id) {
    const Node& node = g.graph.node(id);
    for (const Value& input : node.inputs()) {
      if (input.node().op().movement != Movement::in) continue;
      std::string& text = readers[input.node().id()];
      text += text_of(text.empty() ? "" : " ", g.name_of(node));
    }
  }
  std::map<std::string, std::string> found;
  for (const auto& [id, names] : readers) {
    std::set<std::string> waits;
    for (const Node* before : g.graph.node(id).order_inputs()) waits.insert(g.name_of(*before));
    std::string text;
    for (const std::string& name : waits) text += text_of(text.empty() ? "" : " ", name);
    found[names] = text;
  }
  return found;
}

/// By the name of a node, the source of the swap-out that it waits for.
inline std::map<std::string, std::string> waiting_for_swap_outs(const NamedGraph& g) {
  std::map<std::string, std::string> found;
  for (NodeId id = 0; id < g.graph.num_nodes(); ++id) {
    const Node& node = g.graph.node(id);
    for (const Node* before : node.order_inputs()) {
      if (before->op().movement != Movement::out) continue;
      std::string& text = found[g.name_of(node)];
      text += text_of(text.empty() ? "" : " ", g.name_of(before->inputs()[0].node()));
    }
  }
  return found;
}

/// All that an edit may change, as text: nodes, inputs and waits.
inline std::string text_of_graph(const Graph& graph) {
  std::string text;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    text += node.label();
    for (const Value& input : node.inputs()) text += text_of(" ", input.name());
    for (const Node* before : node.control_inputs()) text += text_of(" ^", before->name());
    for (const Node* before : node.order_inputs()) text += text_of(" <", before->name());
    text += "\n";
  }
  return text + std::to_string(graph.num_edits());
}

}  // namespace sectionflow::testing_support

#include "graph/traversal.h"

#include <algorithm>
#include <array>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/graphviz.hpp>
#include <boost/graph/topological_sort.hpp>
#include <map>

#include "graph/boost_graph.h"
#include "graph/device_scope.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// "a: section 0 'stem', b: section 1, c: outside"; empty when no node belongs to a section.
std::string groups_text(const Graph& graph, const std::vector<NodeId>& cycle) {
  std::string text;
  bool any = false;
  for (std::size_t i = 0; i + 1 < cycle.size(); ++i) {
    const Node& node = graph.node(cycle[i]);
    const bool grouped = node.group() != kNoGroup && !graph.group_name(node.group()).empty();
    any = any || grouped;
    text += text_of(i == 0 ? "" : ", ", node.name(), ": ", grouped ? graph.group_name(node.group()) : "outside");
  }
  return any ? text : std::string();
}

/// `cycle`: nodes in the direction of the data, the first again at the end.
[[noreturn]] void throw_cycle(const Graph& graph, const std::vector<NodeId>& cycle) {
  std::string text;
  for (NodeId id : cycle) text += text_of(text.empty() ? "" : " -> ", graph.node(id).name());
  ArgumentError error(
      error_text_of("the graph has a cycle: ", text,
                    hint("a node cannot wait for itself: drop one of its control edges, or read the variable before "
                         "its update")),
      ErrorCode::graph_cycle);
  error.add_fact("sections", groups_text(graph, cycle));
  throw error;
}

/// Keeps the tree edges of the search, so that a back edge can tell the cycle that it closes.
class CycleFinder : public boost::default_dfs_visitor {
 public:
  explicit CycleFinder(std::vector<NodeId>& parent) : parent_(&parent) {}

  void tree_edge(int edge, const DependencyGraph& graph) {
    (*parent_)[static_cast<std::size_t>(graph.edge_target(edge))] = graph.edge_source(edge);
  }
  void back_edge(int edge, const DependencyGraph& graph) {
    const NodeId last = graph.edge_target(edge);
    std::vector<NodeId> cycle = {last};
    // The search runs from a node to what it depends on; walking its tree upwards gives the direction of the data.
    for (NodeId id = graph.edge_source(edge); id != last; id = (*parent_)[static_cast<std::size_t>(id)])
      cycle.push_back(id);
    cycle.push_back(last);
    throw_cycle(graph.graph(), cycle);
  }

 private:
  std::vector<NodeId>* parent_;
};

class ReachabilityMarker : public boost::default_bfs_visitor {
 public:
  explicit ReachabilityMarker(std::vector<bool>& reached) : reached_(&reached) {}
  void discover_vertex(NodeId node, const DependencyGraph&) { (*reached_)[static_cast<std::size_t>(node)] = true; }

 private:
  std::vector<bool>* reached_;
};

std::vector<std::vector<NodeId>> all_inputs(const Graph& graph) {
  std::vector<std::vector<NodeId>> dependencies(static_cast<std::size_t>(graph.num_nodes()));
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const Value& input : graph.node(id).inputs()) dependencies[id].push_back(input.node().id());
    for (const Node* control : graph.node(id).control_inputs()) dependencies[id].push_back(control->id());
    for (const Node* earlier : graph.node(id).order_inputs()) dependencies[id].push_back(earlier->id());
  }
  return dependencies;
}

}  // namespace

DependencyGraph::DependencyGraph(const Graph& graph) : DependencyGraph(graph, all_inputs(graph)) {}

DependencyGraph::DependencyGraph(const Graph& graph, const std::vector<std::vector<NodeId>>& dependencies)
    : graph_(&graph), begin_{0} {
  for (NodeId id = 0; id < static_cast<NodeId>(dependencies.size()); ++id) {
    for (NodeId dependency : dependencies[id]) {
      source_.push_back(id);
      target_.push_back(dependency);
    }
    begin_.push_back(static_cast<int>(target_.size()));
  }
}

std::vector<NodeId> topological_order(const DependencyGraph& graph) {
  std::vector<NodeId> parent(static_cast<std::size_t>(graph.num_nodes()), -1);
  boost::depth_first_search(graph, boost::visitor(CycleFinder(parent)));
  // Boost writes each node after all nodes that its edges lead to, and starts from nodes in the order of their numbers.
  std::vector<NodeId> order;
  order.reserve(parent.size());
  boost::topological_sort(graph, std::back_inserter(order));
  return order;
}

std::vector<int> levels(const DependencyGraph& graph) {
  std::vector<int> result(static_cast<std::size_t>(graph.num_nodes()), 0);
  for (NodeId id : topological_order(graph)) {
    for (int edge = graph.first_edge(id); edge < graph.end_edge(id); ++edge) {
      result[id] = std::max(result[id], result[graph.edge_target(edge)] + 1);
    }
  }
  return result;
}

std::vector<bool> reachable(const DependencyGraph& graph, const std::vector<NodeId>& roots) {
  std::vector<bool> reached(static_cast<std::size_t>(graph.num_nodes()), false);
  boost::queue<NodeId> queue;
  std::vector<boost::default_color_type> colors(reached.size(), boost::white_color);
  auto color_map = boost::make_iterator_property_map(colors.begin(), get(boost::vertex_index, graph));
  boost::breadth_first_visit(graph, roots.begin(), roots.end(), queue, ReachabilityMarker(reached), color_map);
  return reached;
}

void write_dot(std::ostream& stream, const Graph& graph) {
  static constexpr std::array<const char*, 8> colors = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc",
                                                        "#d9d2e9", "#fce5cd", "#d0e0e3", "#ead1dc"};
  const DependencyGraph dependencies(graph);
  const std::map<NodeId, NamedDevice> devices = named_devices(graph);
  const auto write_node = [&](std::ostream& out, NodeId id) {
    const Node& node = graph.node(id);
    // "\\n" is Graphviz's line break within a label.
    std::string label = node.op().name + "\\n" + node.name();
    if (is_training_flag(node)) label += "\\n(training flag)";
    if (const Branch branch = node.branch(); branch.exists()) {
      label += text_of("\\nwhere ", branch.flag().name(), " is ", branch.when ? "true" : "false");
    }
    if (const auto device = devices.find(id); device != devices.end()) {
      label += text_of("\\non ", device->second.name, device->second.is_soft ? "" : " only");
    }
    if (!node.output_types().empty()) label += "\\n" + node.output_types()[0].text();
    const bool grouped = node.group() != kNoGroup;
    out << "[shape=box,style=filled,label=" << boost::escape_dot_string(label) << ",fillcolor=\""
        << (grouped ? colors[static_cast<std::size_t>(node.group()) % colors.size()] : "#ffffff") << "\"]";
  };
  // Our edges run from a reader to what it reads; dir=back draws the arrow with the data.
  const auto write_edge = [](std::ostream& out, int) { out << "[dir=back]"; };
  boost::write_graphviz(stream, dependencies, write_node, write_edge,
                        [](std::ostream& out) { out << "rankdir=BT;\n"; });
}

}  // namespace sectionflow

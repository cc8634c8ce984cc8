#include "tests/support/graph_round_trip.h"

#include <gtest/gtest.h>

#include "graph/graph_file.h"

namespace sectionflow::testing_support {
namespace {

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

void expect_same_node(const Node& a, const Node& b) {
  SCOPED_TRACE(a.label());
  EXPECT_EQ(a.label(), b.label());
  EXPECT_EQ(a.group(), b.group());
  EXPECT_EQ(a.phase(), b.phase());
  EXPECT_EQ(a.random_ordinal(), b.random_ordinal());
  EXPECT_EQ(a.output_types(), b.output_types());
  EXPECT_EQ(addresses_of(a.inputs()), addresses_of(b.inputs()));
  EXPECT_EQ(ids_of(a.control_inputs()), ids_of(b.control_inputs()));
  EXPECT_EQ(a.any_options().type(), b.any_options().type());
}

void expect_same_collections(const Graph& a, const Graph& b) {
  const auto of_a = a.collected_items(), of_b = b.collected_items();
  ASSERT_EQ(of_a.size(), of_b.size());
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    EXPECT_EQ(of_a[i].collection, of_b[i].collection);
    EXPECT_EQ(of_a[i].group, of_b[i].group);
    ASSERT_EQ(of_a[i].value.valid(), of_b[i].value.valid());
    if (of_a[i].value.valid()) {
      EXPECT_EQ(addresses_of({of_a[i].value}), addresses_of({of_b[i].value}));
    } else {
      EXPECT_EQ(of_a[i].operation.node().id(), of_b[i].operation.node().id());
    }
  }
}

}  // namespace

void expect_round_trip(const Graph& graph) {
  const std::string text = graph_text(graph);
  Graph loaded;
  ASSERT_NO_THROW(load_graph_text(loaded, text)) << text.substr(0, 4000);
  ASSERT_EQ(graph.num_nodes(), loaded.num_nodes());
  for (NodeId id = 0; id < graph.num_nodes(); ++id) expect_same_node(graph.node(id), loaded.node(id));
  ASSERT_EQ(graph.num_groups(), loaded.num_groups());
  for (GroupId group = 0; group < graph.num_groups(); ++group) {
    EXPECT_EQ(graph.group_name(group), loaded.group_name(group));
  }
  EXPECT_EQ(graph.scope_names(), loaded.scope_names());
  EXPECT_EQ(graph.num_control_edges(), loaded.num_control_edges());
  expect_same_collections(graph, loaded);
  // Not EXPECT_EQ, whose message would be both texts.
  EXPECT_TRUE(text == graph_text(loaded)) << "the loaded graph has another text";
}

}  // namespace sectionflow::testing_support

#include "graph/traversal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/unary.h"
#include "tests/graph/description.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using Ids = std::vector<NodeId>;

/// Independent nodes a, b, c, ... to hang edges on.
std::vector<Operation> lettered(Graph& graph, int count) {
  std::vector<Operation> nodes;
  for (int i = 0; i < count; ++i) {
    nodes.emplace_back(placeholder(graph, std::string(1, static_cast<char>('a' + i)), {}));
  }
  return nodes;
}

/// Whether `order` holds every node once and each after all that it depends on.
testing::AssertionResult is_valid_order(const Graph& graph, const Ids& order) {
  std::vector<int> place(static_cast<std::size_t>(graph.num_nodes()), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (place.at(static_cast<std::size_t>(order[i])) >= 0) {
      return testing::AssertionFailure() << "node " << order[i] << " comes twice";
    }
    place[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  if (order.size() != place.size()) return testing::AssertionFailure() << order.size() << " nodes of " << place.size();
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const auto comes_late = [&](const Node& before) { return place[before.id()] > place[id]; };
    for (const Value& input : graph.node(id).inputs()) {
      if (comes_late(input.node())) return testing::AssertionFailure() << input.name() << " after its reader " << id;
    }
    for (const Node* before : graph.node(id).control_inputs()) {
      if (comes_late(*before)) return testing::AssertionFailure() << before->name() << " after " << id;
    }
  }
  return testing::AssertionSuccess();
}

TEST(TopologicalOrder, WithoutForwardControlEdgesIsByNumber) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value y = placeholder(graph, "y", {2});
  const Value z = add(relu(y), relu(x));
  graph.add_control_edge(Operation(x), Operation(z));
  Ids by_number(static_cast<std::size_t>(graph.num_nodes()));
  std::iota(by_number.begin(), by_number.end(), 0);
  EXPECT_EQ(topological_order(DependencyGraph(graph)), by_number);
}

TEST(TopologicalOrder, NodeThatWaitsForALaterOneBringsItForward) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});  // 0
  const Value y = relu(x);                       // 1
  const Value other = relu(x);                   // 2
  const Value z = placeholder(graph, "z", {2});  // 3
  const Value later = relu(z);                   // 4
  graph.add_control_edge(Operation(later), Operation(y));
  EXPECT_EQ(topological_order(DependencyGraph(graph)), (Ids{0, 3, 4, 1, 2}));
  EXPECT_TRUE(is_valid_order(graph, topological_order(DependencyGraph(graph))));
  EXPECT_EQ(other.node().id(), 2);
}

TEST(TopologicalOrder, RespectsDataAndControlEdgesOfRandomGraphs) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Graph graph;
    std::vector<Value> values = {placeholder(graph, "x", {2})};
    while (values.size() < 40) {
      values.push_back(add(values[random() % values.size()], values[random() % values.size()]));
    }
    // Control edges along a hidden permutation of levels never close a cycle: from lower to higher level, any number.
    const std::vector<int> level = levels(DependencyGraph(graph));
    for (int i = 0; i < 40; ++i) {
      const auto a = random() % values.size(), b = random() % values.size();
      if (level[a] < level[b]) graph.add_control_edge(Operation(values[a]), Operation(values[b]));
    }
    EXPECT_TRUE(is_valid_order(graph, topological_order(DependencyGraph(graph))));
  }
}

TEST(TopologicalOrder, OfGivenEdgesIgnoresThoseOfTheGraph) {
  Graph graph;
  const auto nodes = lettered(graph, 3);
  graph.add_control_edge(nodes[2], nodes[0]);
  EXPECT_EQ(topological_order(DependencyGraph(graph, {{}, {}, {}})), (Ids{0, 1, 2}));
  EXPECT_EQ(topological_order(DependencyGraph(graph, {{1}, {2}, {}})), (Ids{2, 1, 0}));
}

TEST(TopologicalOrder, OfADeepGraphDoesNotOverflowTheStack) {
  Graph graph;
  Value x = placeholder(graph, "x", {1});
  for (int i = 0; i < 20000; ++i) x = relu(x);
  // Backwards, so that the search has to go all the way down from the first node.
  std::vector<Ids> dependencies(static_cast<std::size_t>(graph.num_nodes()));
  for (NodeId id = 0; id + 1 < graph.num_nodes(); ++id) dependencies[id] = {id + 1};
  const Ids order = topological_order(DependencyGraph(graph, dependencies));
  ASSERT_EQ(order.size(), 20001U);
  EXPECT_EQ(order.front(), 20000);
  EXPECT_EQ(order.back(), 0);
}

TEST(TopologicalOrder, OfAnEmptyGraphIsEmpty) {
  const Graph graph;
  EXPECT_TRUE(topological_order(DependencyGraph(graph)).empty());
  EXPECT_TRUE(levels(DependencyGraph(graph)).empty());
}

TEST(TopologicalOrder, CycleIsToldInTheOrderOfWaiting) {
  Graph graph;
  const auto n = lettered(graph, 2);
  graph.add_control_edge(n[1], n[0]);
  graph.add_control_edge(n[0], n[1]);
  const std::string text = error_text<ArgumentError>([&] { topological_order(DependencyGraph(graph)); });
  EXPECT_TRUE(contains(text, "cycle: a -> b -> a\n")) << text;
}

TEST(TopologicalOrder, LongCycleNamesItsNodesAndNoOthers) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value p = relu(x), q = relu(p), r = relu(q);
  const Value before = relu(r);
  graph.add_control_edge(Operation(r), Operation(p));
  const std::string text = error_text<ArgumentError>([&] { topological_order(DependencyGraph(graph)); });
  // p waits for r, r reads q, q reads p.
  EXPECT_TRUE(contains(text, "cycle: relu -> relu_1 -> relu_2 -> relu\n")) << text;
  EXPECT_FALSE(contains(text, before.name())) << text;
  EXPECT_THROW(levels(DependencyGraph(graph)), ArgumentError);
}

TEST(TopologicalOrder, NodeThatWaitsForItselfIsACycle) {
  Graph graph;
  const auto n = lettered(graph, 1);
  graph.add_control_edge(n[0], n[0]);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { topological_order(DependencyGraph(graph)); }), "a -> a\n"));
}

TEST(Levels, AreTheLongestChainsBelow) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});  // 0
  const Value y = relu(x);                       // 1
  const Value z = relu(y);                       // 2
  add(x, z);                                     // 3: through z, not x
  const Value lone = placeholder(graph, "l", {2});
  EXPECT_EQ(levels(DependencyGraph(graph)), (std::vector<int>{0, 1, 2, 3, 0}));
  graph.add_control_edge(Operation(z), Operation(lone));
  EXPECT_EQ(levels(DependencyGraph(graph)), (std::vector<int>{0, 1, 2, 3, 3}));
}

TEST(Reachable, IsWhatTheRootsDependOn) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});       // 0
  const Value unused = placeholder(graph, "u", {2});  // 1
  const Value y = relu(x);                            // 2
  const Value z = relu(unused);                       // 3
  const Value reader = relu(y);                       // 4
  const DependencyGraph before(graph);
  EXPECT_EQ(reachable(before, {y.node().id()}), (std::vector<bool>{true, false, true, false, false}));
  EXPECT_EQ(reachable(before, {}), std::vector<bool>(5, false));
  EXPECT_EQ(reachable(before, {2, 3, 2}), (std::vector<bool>{true, true, true, true, false}));
  graph.add_control_edge(Operation(z), Operation(reader));
  EXPECT_EQ(reachable(DependencyGraph(graph), {4}), std::vector<bool>(5, true));
}

TEST(DependencyGraph, HoldsTheEdgesOfEachNode) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  const Value y = add(x, x);
  graph.add_control_edge(Operation(x), Operation(y));
  const DependencyGraph edges(graph);
  EXPECT_EQ(edges.num_nodes(), 2);
  EXPECT_EQ(edges.num_edges(), 3);
  EXPECT_EQ(edges.first_edge(0), edges.end_edge(0));
  for (int edge = edges.first_edge(1); edge < edges.end_edge(1); ++edge) {
    EXPECT_EQ(edges.edge_source(edge), 1);
    EXPECT_EQ(edges.edge_target(edge), 0);
  }
}

/// What a DOT text says, read line by line.
struct Dot {
  std::map<int, std::string> labels, colors;
  std::multiset<std::pair<int, int>> edges;
  bool closed = false;
};

Dot parse_dot(const std::string& text) {
  static const std::regex node(
      R"re(^(\d+)\[shape=box,style=filled,label="((?:[^"\\]|\\.)*)",fillcolor="(#\w{6})"\];$)re");
  static const std::regex edge(R"re(^(\d+)->(\d+) ?\[dir=back\];$)re");
  Dot dot;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "digraph G {");
  std::smatch match;
  while (std::getline(lines, line)) {
    EXPECT_FALSE(dot.closed) << "after the end: " << line;
    if (std::regex_match(line, match, node)) {
      EXPECT_TRUE(dot.labels.emplace(std::stoi(match[1]), match[2]).second) << line;
      dot.colors[std::stoi(match[1])] = match[3];
    } else if (std::regex_match(line, match, edge)) {
      dot.edges.emplace(std::stoi(match[1]), std::stoi(match[2]));
    } else if (line == "}") {
      dot.closed = true;
    } else {
      EXPECT_EQ(line, "rankdir=BT;");
    }
  }
  return dot;
}

TEST(WriteDot, HasEveryNodeEveryEdgeAndAColourAGroup) {
  Graph graph;
  const GroupId first = graph.new_group(), second = graph.new_group();
  const Value x = placeholder(graph, "x", {kDynamic, 3});  // 0
  Value y, z;
  {
    const auto entered = graph.enter_group(first);
    y = relu(x);  // 1
  }
  {
    const auto entered = graph.enter_group(second);
    z = add(y, x);  // 2
    relu(z);        // 3
  }
  group(graph, {Operation(z)}, "say \"all\"");  // 4
  std::ostringstream stream;
  write_dot(stream, graph);
  const Dot dot = parse_dot(stream.str());
  EXPECT_TRUE(dot.closed);
  ASSERT_EQ(dot.labels.size(), 5U);
  EXPECT_EQ(dot.labels.at(0), R"(placeholder\nx\nf32[?,3])");
  EXPECT_EQ(dot.labels.at(2), R"(add\nadd\nf32[?,3])");
  EXPECT_EQ(dot.labels.at(4), R"(group\nsay \"all\")");
  EXPECT_EQ(dot.edges, (std::multiset<std::pair<int, int>>{{1, 0}, {2, 1}, {2, 0}, {3, 2}, {4, 2}}));
  EXPECT_EQ(dot.colors.at(0), "#ffffff");
  EXPECT_EQ(dot.colors.at(4), "#ffffff");
  EXPECT_NE(dot.colors.at(1), "#ffffff");
  EXPECT_EQ(dot.colors.at(2), dot.colors.at(3));
  EXPECT_NE(dot.colors.at(1), dot.colors.at(2));
}

}  // namespace
}  // namespace sectionflow

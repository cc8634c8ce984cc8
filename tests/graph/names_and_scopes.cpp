#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "autodiff/optimizers.h"
#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"

namespace sectionflow {
namespace {

using testing_support::description;

TEST(Names, RepeatedNamesAreNumbered) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2});
  EXPECT_EQ(relu(x).name(), "relu");
  EXPECT_EQ(relu(x).name(), "relu_1");
  EXPECT_EQ(relu(x).name(), "relu_2");
  EXPECT_EQ(placeholder(graph, "x", {2}).name(), "x_1");
}

TEST(Names, NumberedNameThatIsTakenIsSkipped) {
  Graph graph;
  placeholder(graph, "x", {});
  placeholder(graph, "x_1", {});
  EXPECT_EQ(graph.unique_name("x"), "x_2");
  EXPECT_EQ(placeholder(graph, "x", {}).name(), "x_2");
  EXPECT_EQ(graph.unique_name("x_1"), "x_1_1");
}

TEST(Names, NodeWithoutANameIsCalledAfterItsOp) {
  Graph graph;
  EXPECT_EQ(placeholder(graph, "", {}).name(), "placeholder");
  EXPECT_EQ(placeholder(graph, "", {}).name(), "placeholder_1");
}

TEST(Names, AskingForAUniqueNameDoesNotSpendIt) {
  Graph graph;
  EXPECT_EQ(graph.unique_name("x"), "x");
  EXPECT_EQ(graph.unique_name("x"), "x");
  EXPECT_EQ(placeholder(graph, "x", {}).name(), "x");
}

TEST(Scopes, NestAndEnd) {
  Graph graph;
  const auto made = [&] { return placeholder(graph, "x", {}).name(); };
  EXPECT_EQ(made(), "x");
  {
    const auto outer = graph.scope("outer");
    EXPECT_EQ(made(), "outer/x");
    {
      const auto inner = graph.scope("inner");
      EXPECT_EQ(made(), "outer/inner/x");
      EXPECT_EQ(made(), "outer/inner/x_1");
    }
    EXPECT_EQ(made(), "outer/x_1");
  }
  EXPECT_EQ(made(), "x_1");
}

TEST(Scopes, RepeatedScopesAreNumberedSoThatLayersNeverMix) {
  Graph graph;
  const auto in_block = [&] {
    const auto block = graph.scope("block");
    const auto part = graph.scope("part");
    return placeholder(graph, "x", {}).name();
  };
  EXPECT_EQ(in_block(), "block/part/x");
  EXPECT_EQ(in_block(), "block_1/part/x");
  const auto outer = graph.scope("outer");
  EXPECT_EQ(in_block(), "outer/block/part/x");
}

TEST(Scopes, MovedScopeEndsOnce) {
  Graph graph;
  auto outer = std::optional(graph.scope("outer"));
  {
    const GraphScope moved = std::move(*outer);
    EXPECT_EQ(graph.unique_name("x"), "outer/x");
  }
  EXPECT_EQ(graph.unique_name("x"), "x");
  const auto next = graph.scope("next");
  outer.reset();
  EXPECT_EQ(graph.unique_name("x"), "next/x");
}

TEST(Scopes, NameThatBeginsWithASlashIsTakenFromTheRoot) {
  Graph graph;
  const auto scope = graph.scope("scope");
  EXPECT_EQ(placeholder(graph, "/a/b", {}).name(), "a/b");
  EXPECT_EQ(placeholder(graph, "/a/b", {}).name(), "a/b_1");
  EXPECT_EQ(placeholder(graph, "a/b", {}).name(), "scope/a/b");
}

TEST(Names, UpdatesAndSlotsAreCalledAfterTheirVariableWhateverScopeIsOpen) {
  Graph graph;
  std::optional<Value> w;
  {
    const auto scope = graph.scope("layer");
    w = variable("w", fill(graph, {2}, 1));
  }
  EXPECT_EQ(w->name(), "layer/w");
  EXPECT_EQ(initializer_of(*w).name(), "layer/w/assign");
  const auto scope = graph.scope("optimizer");
  EXPECT_EQ(assign_add(*w, *w).name(), "layer/w/assign_add");
  minimize(Adam{}, reduce_sum(*w));
  EXPECT_EQ(graph.find("layer/w/adam_m").op().name, "variable");
  EXPECT_EQ(graph.find("layer/w/adam_v").op().name, "variable");
}

/// A small network, whole or with each layer in a group of its own; random nodes, scopes and training included.
void build_network(Graph& graph, bool with_groups) {
  const auto part = [&]() -> std::optional<GraphScope> {
    if (!with_groups) return std::nullopt;
    return graph.enter_group(graph.new_group());
  };
  const Value images = placeholder(graph, "images", {kDynamic, 6, 6, 2});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  Value x = images;
  for (int layer = 0; layer < 2; ++layer) {
    const auto section = part();
    const auto scope = graph.scope("block");
    x = relu(batch_norm(conv2d(x, {.features = 4}), is_training));
  }
  Value loss;
  {
    const auto section = part();
    const Value noise = random_normal(graph, {4});
    x = reduce_mean(x, {.axes = {1, 2}}) + noise;
    loss = mean(softmax_cross_entropy(dense(x, {.features = 3}), labels));
  }
  minimize(Adam{}, loss);
}

TEST(Groups, NeverEnterNamesNumbersOrRandomOrdinals) {
  Graph whole, cut;
  build_network(whole, false);
  build_network(cut, true);
  EXPECT_EQ(whole.num_groups(), 0);
  EXPECT_EQ(cut.num_groups(), 3);
  EXPECT_EQ(description(whole), description(cut));
  std::set<GroupId> groups;
  for (NodeId id = 0; id < cut.num_nodes(); ++id) groups.insert(cut.node(id).group());
  EXPECT_EQ(groups, (std::set<GroupId>{kNoGroup, 0, 1, 2}));
}

TEST(Groups, StampNodesWhileTheyAreEntered) {
  Graph graph;
  const GroupId a = graph.new_group(), b = graph.new_group();
  EXPECT_EQ(graph.current_group(), kNoGroup);
  const auto group_of_next = [&] { return placeholder(graph, "x", {}).node().group(); };
  {
    const auto in_a = graph.enter_group(a);
    EXPECT_EQ(group_of_next(), a);
    {
      const auto in_b = graph.enter_group(b);
      EXPECT_EQ(group_of_next(), b);
      const auto outside = graph.enter_group(kNoGroup);
      EXPECT_EQ(group_of_next(), kNoGroup);
    }
    EXPECT_EQ(group_of_next(), a);
  }
  EXPECT_EQ(group_of_next(), kNoGroup);
}

TEST(Groups, UnknownGroupCannotBeEntered) {
  Graph graph;
  EXPECT_THROW((void)graph.enter_group(0), ArgumentError);
  graph.new_group();
  EXPECT_NO_THROW((void)graph.enter_group(0));
  EXPECT_THROW((void)graph.enter_group(1), ArgumentError);
  EXPECT_THROW((void)graph.enter_group(-2), ArgumentError);
  EXPECT_EQ(graph.current_group(), kNoGroup);
}

}  // namespace
}  // namespace sectionflow

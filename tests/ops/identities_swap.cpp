#include <gtest/gtest.h>

#include <cstring>

#include "autodiff/gradients.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "graph/traversal.h"
#include "runtime/session.h"
#include "tests/support/contains.h"

namespace sectionflow {
namespace {

using testing_support::contains;

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const ArgumentError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Swap, GivesTheSameTypeAndTheSameBits) {
  for (const Dtype dtype : {Dtype::f32, Dtype::i64, Dtype::u8}) {
    Graph graph;
    const Value x = placeholder(graph, "x", {kDynamic, 3}, dtype);
    const Value offloaded = swap_out(x), back = swap_in(offloaded), again = swap_in(offloaded);
    EXPECT_EQ(offloaded.type(), x.type());
    EXPECT_EQ(back.type(), x.type());
    Session session(graph, {.check_schedules = true});
    session.initialize();
    HostTensor fed(dtype, {5, 3});
    for (std::size_t i = 0; i < fed.num_bytes(); ++i) fed.bytes()[i] = static_cast<std::byte>(i * 7);
    for (const HostTensor& got : session.run(std::vector{back, again}, {{x, fed}})) {
      ASSERT_EQ(got.num_bytes(), fed.num_bytes());
      EXPECT_EQ(std::memcmp(got.bytes(), fed.bytes(), fed.num_bytes()), 0);
    }
  }
}

TEST(Swap, AnEmptyTensorIsSwappedToo) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 3});
  const Value y = relu(swap_in(swap_out(relu(x))));
  Session session(graph, {.check_schedules = true});
  session.initialize();
  auto [got] = session.run({y}, {{x, HostTensor(Dtype::f32, {0, 3})}});
  EXPECT_EQ(got.shape(), (Shape{0, 3}));
}

TEST(Swap, RefusesWhatCannotMove) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value v = variable("v", fill(graph, {2, 3}, 1));
  const Value offloaded = swap_out(relu(x));
  const int before = graph.num_nodes();
  EXPECT_TRUE(contains(error_of([&] { swap_out(v); }), "a variable lives in the session"));
  EXPECT_TRUE(contains(error_of([&] { swap_out(offloaded); }), "is offloaded to the host already"));
  EXPECT_TRUE(contains(error_of([&] { swap_in(x); }), "wanted a result of swap_out"));
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(Swap, WhatIsOffloadedIsReadByNobodyElse) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3});
  const Value offloaded = swap_out(relu(x));
  const Value wrong = relu(offloaded);
  Session session(graph);
  session.initialize();
  const HostTensor fed(Dtype::f32, {2, 3});
  const Feeds feeds = {{x, fed}};
  EXPECT_TRUE(contains(error_of([&] { session.run({wrong}, feeds); }), "which is offloaded to the host"));
  EXPECT_TRUE(contains(error_of([&] { session.run({offloaded}, feeds); }), "is offloaded to the host"));
}

TEST(Swap, GradientsComeFirst) {
  Graph graph;
  const Value v = variable("v", fill(graph, {2, 3}, 1));
  const Value loss = reduce_sum(swap_in(swap_out(relu(v))));
  const int before = graph.num_nodes();
  EXPECT_TRUE(contains(error_of([&] { gradients(loss, {v}); }), "gradients through swap_in"));
  EXPECT_EQ(graph.num_nodes(), before);
}

TEST(Swap, GradientsComeBeforeReplacedInputs) {
  Graph graph;
  const Value v = variable("v", fill(graph, {2, 3}, 1));
  const Value a = relu(v), b = relu(a);
  const Value loss = reduce_sum(b);
  graph.replace_input(b.node(), 0, swap_in(swap_out(a)));
  EXPECT_TRUE(contains(error_of([&] { gradients(loss, {v}); }), "was put in later"));
}

TEST(Swap, ShiftsNoRandomNumbers) {
  Graph graph;
  const Value a = random_uniform(graph, {4});
  swap_in(swap_out(a));
  const Value b = random_uniform(graph, {4});
  EXPECT_EQ(a.node().random_ordinal() + 1, b.node().random_ordinal());
}

// ---- What swap nodes need of a graph.

TEST(ReplaceInput, IsCheckedCountedAndRolledBack) {
  Graph graph, other;
  const Value x = placeholder(graph, "x", {2, 3}), y = placeholder(graph, "y", {2, 3});
  const Value narrow = placeholder(graph, "narrow", {2, 2}), strange = placeholder(other, "strange", {2, 3});
  Node& reader = relu(x).node();
  EXPECT_TRUE(contains(error_of([&] { graph.replace_input(reader, 1, y); }), "there is no input 1"));
  EXPECT_TRUE(contains(error_of([&] { graph.replace_input(reader, -1, y); }), "there is no input -1"));
  EXPECT_TRUE(contains(error_of([&] { graph.replace_input(reader, 0, narrow); }), "wanted a value of the same type"));
  EXPECT_TRUE(contains(error_of([&] { graph.replace_input(reader, 0, strange); }), "must belong to this graph"));
  EXPECT_EQ(graph.num_edits(), 0);
  EXPECT_THROW(graph.all_or_nothing([&] {
    graph.replace_input(reader, 0, relu(y));
    graph.add_order_edge(Operation(y), Operation(reader));
    EXPECT_EQ(graph.num_edits(), 2);
    throw ArgumentError("meant");
  }),
               ArgumentError);
  EXPECT_EQ(graph.num_edits(), 0);
  EXPECT_EQ(reader.inputs()[0], x);
  EXPECT_TRUE(reader.order_inputs().empty());
  graph.replace_input(reader, 0, y);
  EXPECT_EQ(reader.inputs()[0], y);
  EXPECT_EQ(graph.num_edits(), 1);
}

TEST(ReplaceInput, AnEditAfterARunIsHonoured) {
  Graph graph;
  const Value x = placeholder(graph, "x", {}), y = placeholder(graph, "y", {});
  const Value z = relu(x);
  Session session(graph);
  session.initialize();
  const HostTensor one = HostTensor::scalar(1.0F), two = HostTensor::scalar(2.0F);
  const Feeds feeds = {{x, one}, {y, two}};
  auto [before] = session.run({z}, feeds);
  EXPECT_EQ(before.item<float>(), 1.0F);
  graph.replace_input(z.node(), 0, y);
  auto [after] = session.run({z}, feeds);
  EXPECT_EQ(after.item<float>(), 2.0F);
}

TEST(ReplaceInput, ACircleIsFoundByTheNextRun) {
  Graph graph;
  const Value x = placeholder(graph, "x", {});
  const Value a = relu(x), b = relu(a);
  graph.replace_input(a.node(), 0, b);
  Session session(graph);
  EXPECT_TRUE(contains(error_of([&] {
                         session.initialize(), session.run({b}, {{x, HostTensor::scalar(1.0F)}});
                       }),
                       "SF-E011"));
}

TEST(OrderEdge, OrdersWhatRunsAndBringsNothingAlong) {
  Graph graph;
  const Value count = variable("count", fill(graph, {}, 0));
  const Operation step = assign_add(count, fill(graph, {}, 1));
  const Value x = placeholder(graph, "x", {});
  const Value y = relu(x);
  graph.add_order_edge(step, Operation(y));
  graph.add_order_edge(step, Operation(y));
  EXPECT_EQ(graph.num_edits(), 1);
  Session session(graph);
  session.initialize();
  session.run({y}, {{x, HostTensor::scalar(1.0F)}});
  auto [still] = session.run({count});
  EXPECT_EQ(still.item<float>(), 0.0F);
  EXPECT_EQ(levels(DependencyGraph(graph))[y.node().id()], levels(DependencyGraph(graph))[step.node().id()] + 1);
}

}  // namespace
}  // namespace sectionflow

// How the gradient of a value that is read several times is summed: in which order, in which form, and where.

#include "autodiff/gradient_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/nodes/matmul.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/autodiff/weight.h"
#include "tests/support/groups.h"

namespace sectionflow {
namespace {

using testing_support::in_new_group;
using testing_support::weight;

/// The ops of the nodes that `gradients` added, from `first` on.
std::vector<std::string> ops_added(const Graph& graph, NodeId first) {
  std::vector<std::string> ops;
  for (NodeId id = first; id < graph.num_nodes(); ++id) ops.push_back(graph.node(id).op().name);
  return ops;
}

/// The parts of a chain of sums of two, in the order in which they are added.
std::vector<Value> parts_of(Value sum) {
  std::vector<Value> parts;
  while (sum.node().op().name == "add_n") {
    EXPECT_EQ(sum.node().inputs().size(), 2U);
    parts.insert(parts.begin(), sum.node().inputs()[1]);
    sum = sum.node().inputs()[0];
  }
  parts.insert(parts.begin(), sum);
  return parts;
}

TEST(GradientSums, AddContributionsByFallingReaders) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value first = relu(w);
  const Value second = print(w);
  const Value third = relu(w);
  // Read in another order than made.
  const Value loss = reduce_sum(add_n({third, first, second}));
  const std::vector<Value> parts = parts_of(gradients(loss, {w})[0]);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].node().inputs()[1], third);
  // print passes its gradient on: that of the sum itself.
  EXPECT_EQ(parts[1].node().op().name, "reduce_grad");
  EXPECT_EQ(parts[2].node().inputs()[1], first);
}

TEST(GradientSums, AddEachContributionBehindTheNodesThatMakeIt) {
  Graph graph;
  const Value x = placeholder(graph, "x", {3, 2}), w = weight(graph, "w", {2, 2});
  Value h = x;
  for (int i = 0; i < 3; ++i) h = relu(matmul(h, w));
  const Value loss = reduce_sum(h);
  const NodeId end = loss.node().id() + 1;
  gradients(loss, {w});
  EXPECT_EQ(ops_added(graph, end),
            (std::vector<std::string>{"fill", "reduce_grad", "relu_grad", "matmul", "matmul", "relu_grad", "add_matmul",
                                      "matmul", "relu_grad", "add_matmul"}));
}

/// What computes d loss / d w.
const Node& made(Value loss, Value w) {
  return gradients(loss, {w})[0].node();
}

TEST(GradientSums, AreAddedToByProductsAndLookUpsThemselves) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 2}), x = placeholder(graph, "x", {3, 2}),
              batch = placeholder(graph, "batch", {4, 3, 2});
  const Value places = placeholder(graph, "places", {5}, Dtype::i32);
  const auto sum_after = [&](Value earlier) { return reduce_sum(earlier) + reduce_sum(square(w)); };
  // The square is read last, so its part comes first.
  const Node& of_product = made(sum_after(matmul(x, w)), w);
  EXPECT_EQ(of_product.op().name, "add_matmul");
  EXPECT_EQ(of_product.inputs()[0].node().op().name, "square_grad");
  EXPECT_EQ(made(sum_after(matmul(batch, w, {.transpose_b = true})), w).op().name, "add_matmul");
  EXPECT_EQ(made(sum_after(matmul(w, x, {.transpose_b = true})), w).op().name, "add_matmul");
  EXPECT_EQ(made(sum_after(gather(w, places)), w).op().name, "scatter");
}

TEST(GradientSums, AreAddedUpApartWhereAProductRunsInBlocksOrIsOneOfABatch) {
  Graph graph;
  const Value wide = weight(graph, "wide", {kLeastWidthOfBlocks, 1}), w = weight(graph, "w", {4, 2, 2});
  const Value rows = placeholder(graph, "rows", {kDynamic, kLeastWidthOfBlocks}),
              x = placeholder(graph, "x", {4, 3, 2});
  EXPECT_EQ(made(reduce_sum(matmul(rows, wide)) + reduce_sum(square(wide)), wide).op().name, "add_n");
  EXPECT_EQ(made(reduce_sum(matmul(x, w)) + reduce_sum(square(w)), w).op().name, "add_n");
  const Value none = weight(graph, "none", {0, 2}), no_columns = placeholder(graph, "no_columns", {4, 3, 0}),
              nor_here = placeholder(graph, "nor_here", {5, 3, 0});
  EXPECT_EQ(made(reduce_sum(matmul(no_columns, none)) + reduce_sum(matmul(nor_here, none)), none).op().name, "add_n");
}

TEST(GradientSums, AddTheInputsOfOneReaderInTheirOrder) {
  Graph graph;
  const Value w = weight(graph, "w", {2, 2});
  const std::vector<Value> parts = parts_of(gradients(reduce_sum(matmul(w, w)), {w})[0]);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].node().options<MatmulOptions>().transpose_b);
  EXPECT_EQ(parts[0].node().inputs()[1], w);
  EXPECT_TRUE(parts[1].node().options<MatmulOptions>().transpose_a);
  EXPECT_EQ(parts[1].node().inputs()[0], w);
}

TEST(GradientSums, OfOneContributionAreItself) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const NodeId end = reduce_sum(relu(w)).node().id() + 1;
  const Value dw = gradients(graph.node(end - 1).output(), {w})[0];
  EXPECT_EQ(dw.node().op().name, "relu_grad");
  EXPECT_EQ(ops_added(graph, end), (std::vector<std::string>{"fill", "reduce_grad", "relu_grad"}));
}

TEST(GradientSums, OfTwoOrThreeBf16ContributionsAreOneNode) {
  for (std::size_t uses : {2U, 3U}) {
    Graph graph;
    const Value w = cast(weight(graph, "w", {2}), Dtype::bf16);
    std::vector<Value> ys;
    for (std::size_t i = 0; i < uses; ++i) ys.push_back(relu(w));
    const Value dw = gradients(reduce_sum(cast(add_n(ys), Dtype::f32)), {w})[0];
    ASSERT_EQ(dw.node().op().name, "add_n");
    EXPECT_EQ(dw.type().text(), "bf16[2]");
    ASSERT_EQ(dw.node().inputs().size(), uses);
    for (std::size_t i = 0; i < uses; ++i) {
      EXPECT_EQ(dw.node().inputs()[i].node().inputs()[1], ys[uses - 1 - i]) << "falling readers";
    }
  }
}

TEST(GradientSums, OfMoreBf16ContributionsAreCarriedInF32UpToTheLast) {
  Graph graph;
  const Value w = cast(weight(graph, "w", {2}), Dtype::bf16);
  const Value loss = reduce_sum(cast(add_n({relu(w), relu(w), relu(w), relu(w), relu(w)}), Dtype::f32));
  const NodeId end = loss.node().id() + 1;
  Value sum = gradients(loss, {w})[0];
  EXPECT_EQ(sum.type().text(), "bf16[2]");
  for (const char* carried : {"f32[2]", "f32[2]", "f32[2]", "bf16[2]"}) {
    ASSERT_EQ(sum.node().op().name, "accumulate");
    EXPECT_EQ(sum.node().inputs()[1].node().op().name, "relu_grad");
    sum = sum.node().inputs()[0];
    EXPECT_EQ(sum.type().text(), carried);
  }
  // Each behind the nodes that make its part.
  const std::vector<std::string> ops = ops_added(graph, end);
  EXPECT_EQ(std::vector<std::string>(ops.end() - 9, ops.end()),
            (std::vector<std::string>{"relu_grad", "relu_grad", "accumulate", "relu_grad", "accumulate", "relu_grad",
                                      "accumulate", "relu_grad", "accumulate"}));
}

TEST(GradientSums, AddWhatACastOfTheValueLeadsToWithoutACopyInF32) {
  for (const bool cast_comes_first : {true, false}) {
    Graph graph;
    const Value w = weight(graph, "w", {4, 3});
    const Value direct = cast_comes_first ? reduce_sum(square(w)) : Value();
    const Value narrow = reduce_sum(cast(square(cast(w, Dtype::bf16)), Dtype::f32));
    const Value loss = add(narrow, direct.valid() ? direct : reduce_sum(square(w)));
    const Value sum = gradients(loss, {w})[0];
    EXPECT_EQ(sum.dtype(), Dtype::f32);
    ASSERT_EQ(sum.node().op().name, "accumulate");
    EXPECT_EQ(sum.node().inputs()[0].dtype(), Dtype::f32);
    EXPECT_EQ(sum.node().inputs()[1].dtype(), Dtype::bf16);
  }
  Graph graph;
  const Value w = weight(graph, "w", {4});
  const Value twice = add(reduce_sum(cast(square(cast(w, Dtype::bf16)), Dtype::f32)),
                          reduce_sum(cast(exp(cast(w, Dtype::bf16)), Dtype::f32)));
  const Value sum = gradients(twice, {w})[0];
  EXPECT_EQ(sum.dtype(), Dtype::f32);
  for (const Value& part : sum.node().inputs()) EXPECT_EQ(part.dtype(), Dtype::bf16);
}

TEST(GradientSums, OfFewerContributionsThanExpectedAreStillOfTheValuesType) {
  for (int given : {1, 2, 3, 4}) {
    for (int expected = given; expected < 6; ++expected) {
      Graph graph;
      const Value value = fill(graph, {2}, 1, Dtype::bf16);
      GradientSums sums;
      for (int i = 0; i < expected; ++i) sums.expect(value, {});
      EXPECT_FALSE(sums.total(value).valid());
      for (int i = 0; i < given; ++i) sums.contribute({{value, fill(graph, {2}, i, Dtype::bf16)}}, {});
      EXPECT_EQ(sums.total(value).type().text(), "bf16[2]") << given << " of " << expected;
    }
  }
}

TEST(GradientSums, StandInTheGroupOfTheReaderWhosePartTheyAdd) {
  Graph graph;
  Value w, x, y, loss;
  in_new_group(graph, [&] {
    w = weight(graph, "w", {2});
    x = w * 2.0F;
  });
  const GroupId middle = in_new_group(graph, [&] { y = relu(x); });
  const GroupId high = in_new_group(graph, [&] { loss = reduce_sum(y * x + x); });
  gradients(loss, {w});
  // x is read twice in the highest group, and once in the middle one.
  EXPECT_EQ(graph.find("gradients/add_n").group(), high);
  EXPECT_EQ(graph.find("gradients/add_n_1").group(), middle);
}

TEST(GradientSums, CountAPassedOnGradientAsItsReadersPart) {
  // A residual block ends with its addition, whose gradient is made in the next group and passed on unchanged; still
  // both readers of x stand in the block's group, and only their sum leaves it.
  Graph graph;
  Value w, x, y, loss;
  in_new_group(graph, [&] {
    w = weight(graph, "w", {2});
    x = w * 2.0F;
  });
  const GroupId block = in_new_group(graph, [&] { y = relu(x) + x; });
  const GroupId above = in_new_group(graph, [&] { loss = reduce_sum(relu(y)); });
  gradients(loss, {w});
  const Node& sum = graph.find("gradients/add_n");
  EXPECT_EQ(sum.group(), block);
  EXPECT_EQ(sum.inputs()[0].node().group(), above);
}

TEST(GradientSums, WithTheSamePartsAreMadeOnce) {
  // Both gradients of sums are passed on to h and k, which nothing else reads but tanh.
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value h = relu(w), k = tanh(w);
  const Value loss = reduce_sum(relu(h + k) * tanh(h + k));
  const NodeId end = loss.node().id() + 1;
  const std::vector<Value> both = gradients(loss, {h, k});
  EXPECT_EQ(both[0], both[1]);
  const std::vector<std::string> ops = ops_added(graph, end);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "add_n"), 1);
}

TEST(GradientSums, WaitWhileOtherSumsHoldBothParts) {
  // The gradients of both sums are passed on: to a, and to b or c, which are differentiated behind them.
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value a = relu(w), b = relu(a), c = relu(a);
  const Value first = a + b, second = a + c;
  const Value loss = reduce_sum(first * second);
  gradients(loss, {w});
  // Then c's part comes, over which all three can be added.
  const Node& sum = graph.find("gradients/add_n");
  ASSERT_EQ(sum.inputs().size(), 3U);
  EXPECT_EQ(sum.inputs()[2].node().inputs()[1], c);
  EXPECT_EQ(&graph.find("gradients/add_n_1").inputs()[0].node(), &sum);
}

TEST(GradientSums, AreOfTheLineOfTheValue) {
  Graph graph;
  const Value w = weight(graph, "w", {2});
  const Value h = relu(w);
  const int line = __LINE__ - 1;
  const Value dh = gradients(reduce_sum(h * h), {h})[0];
  ASSERT_EQ(dh.node().op().name, "add_n");
  EXPECT_EQ(dh.node().where().text(), text_of("gradient_sums.cpp:", line));
}

TEST(GradientSums, CarryTheGradientOfTheirGradient) {
  // d/dw of the sum of dw of w^5 is 20 w^3, through each sum of bf16.
  Graph graph;
  const Value w = cast(weight(graph, "w", {2}), Dtype::bf16);
  const Value y = w * w * w * w * w;
  const Value dw = gradients(reduce_sum(cast(y, Dtype::f32)), {w})[0];
  ASSERT_EQ(dw.node().op().name, "accumulate");
  const Value d2w = gradients(reduce_sum(cast(dw, Dtype::f32)), {w})[0];
  EXPECT_EQ(d2w.type().text(), "bf16[2]");
}

}  // namespace
}  // namespace sectionflow

#include "tests/graph/shapes.h"

#include <gtest/gtest.h>

#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/reduce.h"
#include "graph/nodes/unary.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"

// What each op family makes of its inputs' types, and how it says no: the error starts with the op and its name and
// shows what came.

namespace sectionflow {
namespace {

using testing_support::Shapes;

TEST_F(Shapes, ElementWiseOpsBroadcastFromTheLastDimension) {
  for (const auto& op : {add, sub, mul, div}) {
    EXPECT_EQ(op(in({2, 3}), in({2, 3}), Where::here()).type().text(), "f32[2,3]");
    EXPECT_EQ(op(in({2, 3}), in({3}), Where::here()).type().text(), "f32[2,3]");
    EXPECT_EQ(op(in({}), in({2, 3}), Where::here()).type().text(), "f32[2,3]");
    EXPECT_EQ(op(in({4, 1, 3}), in({2, 1}), Where::here()).type().text(), "f32[4,2,3]");
    EXPECT_EQ(op(in({kDynamic, 3}), in({3}), Where::here()).type().text(), "f32[?,3]");
    EXPECT_EQ(op(in({kDynamic, 3}), in({kDynamic, 1}), Where::here()).type().text(), "f32[?,3]");
  }
  EXPECT_EQ((in({2, 3}) * 2.0F).type().text(), "f32[2,3]");
  EXPECT_EQ((2.0F * in({kDynamic})).type().text(), "f32[?]");
}

TEST_F(Shapes, ElementWiseOpsRefuseWhatDoesNotBroadcast) {
  expect_refused<ShapeError>([&] { add(in({2, 3}), in({4, 3})); }, "add 'add'", {"[2,3]", "[4,3]", "dimension -2"});
  expect_refused<ShapeError>([&] { mul(in({kDynamic, 3}), in({4, 3})); }, "mul 'mul'", {"[?,3]", "[4,3]"});
}

TEST_F(Shapes, ElementWiseOpsTakeOneDtypeThatTheyKnow) {
  EXPECT_EQ(add(in({2}, Dtype::i64), in({2}, Dtype::i64)).type().text(), "i64[2]");
  expect_refused<ArgumentError>([&] { add(in({2}), in({2}, Dtype::i64)); }, "add 'add", {"f32[2]", "i64[2]", "cast"});
  expect_refused<ArgumentError>([&] { sub(in({2}, Dtype::u8), in({2}, Dtype::u8)); }, "sub 'sub'", {"u8[2]"});
  expect_refused<ArgumentError>([&] { div(in({2}, Dtype::i64), in({2}, Dtype::i64)); }, "div 'div'", {"i64[2]", "f32"});
}

TEST_F(Shapes, AddNWantsEqualTypes) {
  EXPECT_EQ(add_n({in({2, 3}), in({2, 3}), in({2, 3})}).type().text(), "f32[2,3]");
  EXPECT_EQ(add_n({in({kDynamic, 3}), in({kDynamic, 3})}).type().text(), "f32[?,3]");
  expect_refused<ShapeError>([&] { add_n({in({2, 3}), in({3})}); }, "add_n 'add_n", {"f32[2,3]", "f32[3]"});
  expect_refused<ArgumentError>([&] { add_n({in({2}, Dtype::i32)}); }, "add_n 'add_n", {"i32[2]"});
  EXPECT_THROW(add_n({}), ArgumentError);
}

TEST_F(Shapes, ReduceToLikeTakesTheShapeThatWasRepeated) {
  EXPECT_EQ(reduce_to_like(in({2, 3}), in({3})).type().text(), "f32[3]");
  EXPECT_EQ(reduce_to_like(in({kDynamic, 3}), in({})).type().text(), "f32[]");
  EXPECT_EQ(reduce_to_like(in({kDynamic, 3}), in({kDynamic, 3})).type().text(), "f32[?,3]");
  expect_refused<ShapeError>([&] { reduce_to_like(in({3}), in({2, 3})); }, "reduce_to_like", {"[3]", "[2,3]"});
}

TEST_F(Shapes, ReluKeepsItsType) {
  EXPECT_EQ(relu(in({kDynamic, 3})).type().text(), "f32[?,3]");
  EXPECT_EQ(relu(in({})).type().text(), "f32[]");
  expect_refused<ArgumentError>([&] { relu(in({2}, Dtype::i32)); }, "relu 'relu", {"i32[2]", "cast"});
  EXPECT_EQ(relu_grad(in({2}), in({2})).type().text(), "f32[2]");
  expect_refused<ShapeError>([&] { relu_grad(in({2}), in({3})); }, "relu_grad 'relu_grad", {"f32[2]", "f32[3]"});
}

TEST_F(Shapes, MatmulMultipliesTheGivenOrTransposedFactors) {
  EXPECT_EQ(matmul(in({2, 3}), in({3, 4})).type().text(), "f32[2,4]");
  EXPECT_EQ(matmul(in({3, 2}), in({3, 4}), {.transpose_a = true}).type().text(), "f32[2,4]");
  EXPECT_EQ(matmul(in({2, 3}), in({4, 3}), {.transpose_b = true}).type().text(), "f32[2,4]");
  EXPECT_EQ(matmul(in({3, 2}), in({4, 3}), {.transpose_a = true, .transpose_b = true}).type().text(), "f32[2,4]");
  EXPECT_EQ(matmul(in({kDynamic, 3}), in({3, 4})).type().text(), "f32[?,4]");
  // A gradient of weights: the unknown batch is summed over.
  EXPECT_EQ(matmul(in({kDynamic, 3}), in({kDynamic, 4}), {.transpose_a = true}).type().text(), "f32[3,4]");
}

TEST_F(Shapes, MatmulRefusesUnequalInnerDimensionsAndShowsTransposes) {
  expect_refused<ShapeError>(
      [&] {
        matmul(in({2, 3}), in({4, 5}));
      },
      "matmul 'matmul'", {"[2,3] x [4,5]", "inner dimensions 3 and 4"});
  expect_refused<ShapeError>(
      [&] {
        matmul(in({2, 3}), in({4, 5}), {.transpose_a = true, .transpose_b = true});
      },
      "matmul 'matmul'", {"[2,3]^T x [4,5]^T", "inner dimensions 2 and 5"});
  expect_refused<ShapeError>([&] { matmul(in({2, 3}), in({3})); }, "matmul 'matmul'", {"[2,3]", "[3]", "two matrices"});
  expect_refused<ArgumentError>([&] { matmul(in({2, 3}), in({3, 4}, Dtype::f64)); }, "matmul 'matmul'", {"f64[3,4]"});
}

TEST_F(Shapes, ReductionsDropOrKeepTheirAxes) {
  const Value x = in({2, 3, 4});
  for (const auto& reduce : {reduce_sum, reduce_mean, reduce_max}) {
    EXPECT_EQ(reduce(x, {}, Where::here()).type().text(), "f32[]");
    EXPECT_EQ(reduce(x, {.axes = {1}}, Where::here()).type().text(), "f32[2,4]");
    EXPECT_EQ(reduce(x, {.axes = {-1, 0}}, Where::here()).type().text(), "f32[3]");
    EXPECT_EQ(reduce(x, {.axes = {1, 2}, .keep_dims = true}, Where::here()).type().text(), "f32[2,1,1]");
    EXPECT_EQ(reduce(x, {.keep_dims = true}, Where::here()).type().text(), "f32[1,1,1]");
    EXPECT_EQ(reduce(in({kDynamic, 3}), {.axes = {1}}, Where::here()).type().text(), "f32[?]");
    EXPECT_EQ(reduce(in({kDynamic, 3}), {.axes = {0}}, Where::here()).type().text(), "f32[3]");
    EXPECT_EQ(reduce(in({}), {}, Where::here()).type().text(), "f32[]");
  }
  EXPECT_EQ(mean(in({kDynamic})).type().text(), "f32[]");
}

TEST_F(Shapes, ReductionsRefuseAxesThatAreNotThere) {
  const Value x = in({2, 3});
  expect_refused<ShapeError>([&] { reduce_sum(x, {.axes = {2}}); }, "reduce 'reduce_sum'", {"axis 2", "rank 2"});
  expect_refused<ShapeError>([&] { reduce_max(x, {.axes = {-3}}); }, "reduce 'reduce_max'", {"axis -3"});
  expect_refused<ShapeError>([&] { reduce_mean(x, {.axes = {1, -1}}); }, "reduce 'reduce_mean'", {"axis -1", "twice"});
  expect_refused<ShapeError>(
      [&] {
        reduce_mean(in({0, 3}), {.axes = {0}});
      },
      "reduce 'reduce_mean'", {"[0,3]", "no elements"});
  expect_refused<ArgumentError>([&] { mean(in({2}, Dtype::i32)); }, "reduce 'reduce_mean'", {"i32[2]", "cast"});
  EXPECT_EQ(reduce_sum(in({0, 3}), {.axes = {1}}).type().text(), "f32[0]");
}

TEST_F(Shapes, ReductionGradientsAreLikeX) {
  const Value x = in({kDynamic, 3});
  const ReduceNodeOptions rows{Reduction::mean, {.axes = {1}}};
  const ReduceNodeOptions maxima{Reduction::max, {.axes = {1}}};
  EXPECT_EQ(reduce_grad(in({kDynamic}), x, rows).type().text(), "f32[?,3]");
  EXPECT_EQ(reduce_max_grad(in({kDynamic}), x, in({kDynamic}), maxima).type().text(), "f32[?,3]");
  expect_refused<ShapeError>([&] { reduce_grad(in({3}), in({2, 3}), rows); }, "reduce_grad", {"[3]", "[2,3]", "[2]"});
  expect_refused<ShapeError>(
      [&] {
        reduce_max_grad(in({2}), in({2, 3}), in({3}), maxima);
      },
      "reduce_max_grad", {"[3]", "[2,3]", "[2]"});
}

TEST_F(Shapes, ReshapeWorksOutOneDimension) {
  const Value x = in({2, 3, 4});
  EXPECT_EQ(reshape(x, {6, 4}).type().text(), "f32[6,4]");
  EXPECT_EQ(reshape(x, {-1, 4}).type().text(), "f32[6,4]");
  EXPECT_EQ(reshape(x, {-1}).type().text(), "f32[24]");
  EXPECT_EQ(reshape(x, {24, -1, 1}).type().text(), "f32[24,1,1]");
  EXPECT_EQ(reshape(in({0, 4}), {-1, 2}).type().text(), "f32[0,2]");
  EXPECT_EQ(reshape(in({1, 1}, Dtype::u8), {}).type().text(), "u8[]");
  // While the batch is unknown, so is the dimension that takes it up.
  EXPECT_EQ(reshape(in({kDynamic, 2, 2}), {-1, 4}).type().text(), "f32[?,4]");
  EXPECT_EQ(reshape_like(in({6, 4}), x).type().text(), "f32[2,3,4]");
  EXPECT_EQ(reshape_like(in({kDynamic, 4}), in({kDynamic, 2, 2})).type().text(), "f32[?,2,2]");
}

TEST_F(Shapes, ReshapeRefusesAnotherNumberOfElements) {
  const Value x = in({2, 3});
  expect_refused<ShapeError>([&] { reshape(x, {4, 2}); }, "reshape 'reshape'", {"[2,3] has 6", "[4,2] has 8"});
  expect_refused<ShapeError>([&] { reshape(x, {-1, 4}); }, "reshape 'reshape'", {"[2,3]", "not a multiple of the 4"});
  expect_refused<ShapeError>([&] { reshape(x, {-1, -1}); }, "reshape 'reshape'", {"more than one -1"});
  expect_refused<ShapeError>([&] { reshape(in({0, 3}), {-1, 0}); }, "reshape 'reshape'", {"[0,3]"});
  expect_refused<ShapeError>([&] { reshape(in({kDynamic, 3}), {2, 3}); }, "reshape 'reshape'", {"[?,3]", "[2,3]"});
  expect_refused<ShapeError>([&] { reshape_like(x, in({7})); }, "reshape_like", {"[2,3]", "[7]"});
}

TEST_F(Shapes, SourcesHaveTheTypeThatIsAskedFor) {
  EXPECT_EQ(in({kDynamic, 3}, Dtype::u8).type().text(), "u8[?,3]");
  EXPECT_EQ(fill(graph_, {2, 3}, 1, Dtype::i64).type().text(), "i64[2,3]");
  EXPECT_EQ(constant(graph_, HostTensor::of<std::int32_t>({2}, {1, 2})).type().text(), "i32[2]");
  EXPECT_EQ(constant(graph_, 2.0F).type().text(), "f32[]");
  EXPECT_EQ(var({2, 3}).type().text(), "f32[2,3]");
  EXPECT_EQ(random_uniform(graph_, {2, 3}).type().text(), "f32[2,3]");
  EXPECT_THROW(fill(graph_, {kDynamic}, 1), ShapeError);
  EXPECT_THROW(random_normal(graph_, {kDynamic}), ShapeError);
  EXPECT_THROW(random_uniform(graph_, {2}, {.low = 1, .high = 1}), ArgumentError);
  expect_refused<ShapeError>([&] { variable("v", in({kDynamic})); }, "variable 'v'", {"[?]", "every dimension known"});
}

TEST_F(Shapes, OnlyVariablesHaveAnInitialiser) {
  const Value v = var({2});
  EXPECT_EQ(initializer_of(v).node().op().name, "assign");
  EXPECT_TRUE(is_variable(v));
  const Value x = in({2});
  EXPECT_FALSE(is_variable(x));
  expect_refused<ArgumentError>([&] { initializer_of(x); }, "initializer_of('x')", {"no variable but a placeholder"});
}

TEST_F(Shapes, CastComparisonArgmaxAndPrint) {
  EXPECT_EQ(cast(in({kDynamic, 3}), Dtype::i32).type().text(), "i32[?,3]");
  EXPECT_EQ(equal(in({kDynamic}, Dtype::i32), in({kDynamic}, Dtype::i32)).type().text(), "bool[?]");
  expect_refused<ShapeError>([&] { equal(in({2}), in({3})); }, "equal 'equal", {"f32[2]", "f32[3]"});
  expect_refused<ArgumentError>([&] { equal(in({2}), in({2}, Dtype::i32)); }, "equal 'equal", {"f32[2]", "i32[2]"});
  EXPECT_EQ(argmax(in({kDynamic, 7, 3})).type().text(), "i32[?,7]");
  expect_refused<ShapeError>([&] { argmax(in({})); }, "argmax 'argmax", {"f32[]"});
  expect_refused<ShapeError>([&] { argmax(in({2, 0})); }, "argmax 'argmax", {"f32[2,0]"});
  expect_refused<ArgumentError>([&] { argmax(in({2}, Dtype::i32)); }, "argmax 'argmax", {"i32[2]"});
  EXPECT_EQ(print(in({kDynamic}, Dtype::i64)).type().text(), "i64[?]");
  EXPECT_THROW(print(in({2}), {.first = -1}), ArgumentError);
}

}  // namespace
}  // namespace sectionflow

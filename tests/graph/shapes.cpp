#include <gtest/gtest.h>

#include "graph/ops/activation.h"
#include "graph/ops/argmax.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/cast.h"
#include "graph/ops/compare.h"
#include "graph/ops/conv2d.h"
#include "graph/ops/matmul.h"
#include "graph/ops/print.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/reshape.h"
#include "graph/ops/softmax_cross_entropy.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"
#include "tests/support/temporary_folder.h"

// What each op family makes of its inputs' types, and how it says no: the error starts with the op and its name and
// shows what came.

namespace sectionflow {
namespace {

using testing_support::contains;

/// A graph with placeholders on demand.
class Shapes : public testing::Test {
 protected:
  Value in(Shape shape, Dtype dtype = Dtype::f32) { return placeholder(graph_, "x", std::move(shape), dtype); }
  Value var(Shape shape, Dtype dtype = Dtype::f32) { return variable("v", fill(graph_, std::move(shape), 0, dtype)); }

  /// Expects an error of the type whose text starts with `start` and has all `parts`.
  template <class Wanted, class Call>
  void expect_refused(const Call& call, const std::string& start, const std::vector<std::string>& parts) {
    const std::string text = error_text<Wanted>(call);
    EXPECT_EQ(text.find(start), 0U) << text;
    for (const std::string& part : parts) EXPECT_TRUE(contains(text, part)) << "wanted " << part << " in: " << text;
  }

  Graph graph_;
};

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

TEST_F(Shapes, BiasAddWantsOneNumberAChannel) {
  EXPECT_EQ(bias_add(in({kDynamic, 28, 28, 3}), in({3})).type().text(), "f32[?,28,28,3]");
  EXPECT_EQ(bias_add(in({3}), in({3})).type().text(), "f32[3]");
  EXPECT_EQ(bias_add_grad(in({kDynamic, 28, 28, 3})).type().text(), "f32[3]");
  expect_refused<ShapeError>([&] { bias_add(in({2, 3}), in({4})); }, "bias_add 'bias_add", {"[2,3]", "[4]"});
  expect_refused<ShapeError>([&] { bias_add(in({2, 3}), in({1, 3})); }, "bias_add 'bias_add", {"[2,3]", "[1,3]"});
  expect_refused<ShapeError>([&] { bias_add(in({}), in({1})); }, "bias_add 'bias_add", {"[]", "[1]"});
  expect_refused<ArgumentError>([&] { bias_add(in({2, 3}), in({3}, Dtype::i32)); }, "bias_add", {"i32[3]"});
  expect_refused<ShapeError>([&] { bias_add_grad(in({})); }, "bias_add_grad", {"scalar"});
  expect_refused<ArgumentError>([&] { bias_add_grad(in({2}, Dtype::i32)); }, "bias_add_grad", {"i32[2]"});
}

struct ConvAxis {
  Padding padding;
  std::int64_t size, kernel, stride;
  std::int64_t out, before, after;
};

TEST_F(Shapes, ConvolutionSizesAndZerosAreThoseOfTheTable) {
  // `same` as TensorFlow defines it: ceil(size / stride) outputs, the odd zero after the image.
  const ConvAxis table[] = {
      {Padding::same, 28, 3, 1, 28, 1, 1},
      {Padding::same, 28, 3, 2, 14, 0, 1},
      {Padding::same, 7, 3, 2, 4, 1, 1},
      {Padding::same, 28, 2, 1, 28, 0, 1},
      {Padding::same, 28, 5, 1, 28, 2, 2},
      {Padding::same, 28, 5, 2, 14, 1, 2},
      {Padding::same, 28, 1, 2, 14, 0, 0},
      {Padding::same, 224, 7, 2, 112, 2, 3},
      {Padding::same, 5, 1, 3, 2, 0, 0},
      {Padding::same, 2, 5, 1, 2, 2, 2},
      {Padding::valid, 28, 3, 1, 26, 0, 0},
      {Padding::valid, 28, 3, 2, 13, 0, 0},
      {Padding::valid, 5, 5, 3, 1, 0, 0},
      {Padding::valid, 7, 3, 3, 2, 0, 0},
      {Padding(1, 1), 28, 3, 1, 28, 1, 1},
      {Padding(3, 3), 224, 7, 2, 112, 3, 3},
      {Padding({0, 0}, {1, 1}), 28, 3, 2, 14, 0, 1},
      {Padding(2, 2), 3, 7, 1, 1, 2, 2},
  };
  for (const ConvAxis& row : table) {
    SCOPED_TRACE(text_of("size ", row.size, " kernel ", row.kernel, " stride ", row.stride));
    // The row along the height, then along the width; 1 x 1 along the other.
    for (int axis : {0, 1}) {
      const auto pair = [&](std::int64_t along, std::int64_t other) {
        return axis == 0 ? std::array{along, other} : std::array{other, along};
      };
      Padding padding = row.padding;
      if (padding.kind() == Padding::Kind::fixed) padding = Padding(pair(row.before, 0), pair(row.after, 0));
      const auto [height, width] = pair(row.size, 1);
      const auto [kernel_height, kernel_width] = pair(row.kernel, 1);
      const Conv2dOptions options{.stride = pair(row.stride, 1), .padding = padding};
      const ConvolutionGeometry g = convolution_geometry({2, height, width, 3}, {kernel_height, kernel_width, 3, 4},
                                                         convolution_options(options), "c");
      EXPECT_EQ((std::array{g.axes[0].out, g.axes[1].out}), pair(row.out, 1));
      EXPECT_EQ((std::array{g.axes[0].before, g.axes[1].before}), pair(row.before, 0));
      EXPECT_EQ((std::array{g.axes[0].after, g.axes[1].after}), pair(row.after, 0));
      const Value y = conv2d(in({kDynamic, height, width, 3}), in({kernel_height, kernel_width, 3, 4}), options);
      EXPECT_EQ(y.shape(), (Shape{kDynamic, g.axes[0].out, g.axes[1].out, 4}));
    }
  }
}

TEST_F(Shapes, ConvolutionRefusesWhatDoesNotFit) {
  const Value x = in({2, 8, 8, 3});
  expect_refused<ShapeError>(
      [&] {
        conv2d(x, in({3, 3, 4, 16}));
      },
      "conv2d 'conv2d'", {"[2,8,8,3]", "3 channels", "[3,3,4,16]", "wants 4"});
  expect_refused<ShapeError>(
      [&] {
        conv2d(in({8, 8, 3}), in({3, 3, 3, 16}));
      },
      "conv2d 'conv2d'", {"[8,8,3]", "[3,3,3,16]", "[N, H, W, C]"});
  expect_refused<ShapeError>(
      [&] {
        conv2d(x, in({9, 3, 3, 4}), {.padding = Padding::valid});
      },
      "conv2d 'conv2d'", {"kernel of 9", "image of 8", "Padding::same"});
  expect_refused<ShapeError>(
      [&] {
        conv2d(in({2, kDynamic, 8, 3}), in({3, 3, 3, 4}));
      },
      "conv2d 'conv2d'", {"only the batch may be -1"});
  expect_refused<ShapeError>([&] { conv2d(x, in({kDynamic, 3, 3, 4})); }, "conv2d 'conv2d'", {"must be known"});
  expect_refused<ShapeError>([&] { conv2d(x, in({3, 0, 3, 4})); }, "conv2d 'conv2d'", {">= 1"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x, in({3, 3, 3, 4}), {.stride = {1, 0}});
      },
      "conv2d 'conv2d'", {"stride 0"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x, in({3, 3, 3, 4}), {.padding = {-1, 0}});
      },
      "conv2d 'conv2d'", {"negative padding"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(in({2, 8, 8, 3}, Dtype::u8), in({3, 3, 3, 4}));
      },
      "conv2d 'conv2d'", {"u8[2,8,8,3]", "cast"});
}

TEST_F(Shapes, ConvolutionGradientsAreLikeWhatTheyDifferentiate) {
  const Value x = in({kDynamic, 8, 8, 3}), w = in({3, 3, 3, 4}), dy = in({kDynamic, 4, 4, 4});
  const Conv2dOptions options{.stride = {2, 2}};
  EXPECT_EQ(conv2d_backward_input(dy, w, x, options).shape(), x.shape());
  EXPECT_EQ(conv2d_backward_filter(dy, x, w, options).shape(), w.shape());
  expect_refused<ShapeError>([&] { conv2d_backward_input(dy, w, x, {}); }, "conv2d_backward_input",
                             {"[?,4,4,4]", "wanted [?,8,8,4]"});
  expect_refused<ShapeError>([&] { conv2d_backward_filter(dy, x, w, {}); }, "conv2d_backward_filter",
                             {"[?,4,4,4]", "wanted [?,8,8,4]"});
}

TEST_F(Shapes, BatchNormGivesStatisticsAChannel) {
  const Value is_training = in({}, Dtype::boolean);
  const auto result = batch_norm(in({kDynamic, 8, 8, 3}), in({3}), in({3}), in({3}), in({3}), is_training);
  EXPECT_EQ(result.y.type().text(), "f32[?,8,8,3]");
  EXPECT_EQ(result.mean.type().text(), "f32[3]");
  EXPECT_EQ(result.variance.type().text(), "f32[3]");
  const auto g =
      batch_norm_grad(in({kDynamic, 3}), in({kDynamic, 3}), in({3}), in({3}), in({3}), in({3}), is_training, {});
  EXPECT_EQ(g.dx.type().text(), "f32[?,3]");
  EXPECT_EQ(g.dscale.type().text(), "f32[3]");
  EXPECT_EQ(g.dshift.type().text(), "f32[3]");
}

TEST_F(Shapes, BatchNormRefusesWhatDoesNotFit) {
  const Value x = in({2, 3}), c = in({3}), yes = in({}, Dtype::boolean);
  expect_refused<ShapeError>([&] { batch_norm(x, c, in({4}), c, c, yes); }, "batch_norm 'batch_norm'",
                             {"[2,3]", "input 2", "[4]"});
  expect_refused<ShapeError>([&] { batch_norm(c, c, c, c, c, yes); }, "batch_norm 'batch_norm'", {"[3]", "rank 2"});
  expect_refused<ArgumentError>(
      [&] {
        batch_norm(in({2, 3}, Dtype::f64), c, c, c, c, yes);
      },
      "batch_norm 'batch_norm'", {"f64[2,3]"});
  expect_refused<ShapeError>(
      [&] {
        batch_norm_grad(in({3, 3}), x, c, c, c, c, yes, {});
      },
      "batch_norm_grad", {"[3,3]", "[2,3]"});
  expect_refused<ShapeError>([&] { batch_norm_grad(x, x, c, c, in({4}), c, yes, {}); }, "batch_norm_grad",
                             {"[2,3]", "[4]"});
}

TEST_F(Shapes, IsTrainingMustBeKnownOnTheHost) {
  const Value x = in({2, 3}), c = in({3});
  const Value computed = equal(in({}), in({}));
  const Value average = var({3});
  EXPECT_NO_THROW(batch_norm(x, c, c, c, c, constant(graph_, HostTensor::scalar(true))));
  expect_refused<ArgumentError>([&] { batch_norm(x, c, c, c, c, computed); }, "batch_norm",
                                {"'equal' is computed by equal", "placeholder or constant"});
  expect_refused<ArgumentError>([&] { batch_norm_grad(x, x, c, c, c, c, computed, {}); }, "batch_norm_grad",
                                {"'equal'"});
  expect_refused<ArgumentError>([&] { update_moving_average(average, c, computed, 0.9F); }, "update_moving_average",
                                {"'equal'", "placeholder or constant"});
  expect_refused<ArgumentError>([&] { batch_norm(x, c, c, c, c, in({1}, Dtype::boolean)); }, "batch_norm",
                                {"bool[1]", "bool[]"});
  expect_refused<ArgumentError>([&] { update_moving_average(average, c, in({}), 0.9F); }, "update_moving_average",
                                {"f32[]", "bool[]"});
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
  EXPECT_EQ(reduce_grad(in({kDynamic}), x, rows).type().text(), "f32[?,3]");
  EXPECT_EQ(reduce_max_grad(in({kDynamic}), x, in({kDynamic}), rows).type().text(), "f32[?,3]");
  expect_refused<ShapeError>([&] { reduce_grad(in({3}), in({2, 3}), rows); }, "reduce_grad", {"[3]", "[2,3]", "[2]"});
  expect_refused<ShapeError>(
      [&] {
        reduce_max_grad(in({2}), in({2, 3}), in({3}), rows);
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

TEST_F(Shapes, SoftmaxCrossEntropyTakesClassesOrProbabilities) {
  const Value logits = in({kDynamic, 10});
  for (const Value labels : {in({kDynamic}, Dtype::i32), in({kDynamic}, Dtype::i64), in({kDynamic, 10})}) {
    Node& node = softmax_cross_entropy(logits, labels).node();
    ASSERT_EQ(node.output_types().size(), 2U);
    EXPECT_EQ(node.output_types()[0].text(), "f32[?]");
    EXPECT_EQ(node.output_types()[1].text(), "f32[?,2]");
    const Value gradient = softmax_cross_entropy_grad(in({kDynamic}), node.output(1), logits, labels);
    EXPECT_EQ(gradient.type().text(), "f32[?,10]");
  }
}

TEST_F(Shapes, SoftmaxCrossEntropyRefusesOtherLabels) {
  const Value logits = in({4, 10});
  const std::string start = "softmax_cross_entropy 'softmax_cross_entropy'";
  expect_refused<ShapeError>([&] { softmax_cross_entropy(logits, in({4})); }, start,
                             {"f32[4,10]", "f32[4]", "i32 or i64"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(logits, in({5}, Dtype::i32)); }, start, {"i32[5]"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(logits, in({4, 9})); }, start, {"f32[4,10]", "f32[4,9]"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(logits, in({4, 10}, Dtype::i32)); }, start, {"i32[4,10]"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(logits, in({4}, Dtype::u8)); }, start, {"u8[4]"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(in({10}), in({}, Dtype::i32)); }, start,
                             {"f32[10]", "[N, C]"});
  expect_refused<ShapeError>([&] { softmax_cross_entropy(in({4, 0}), in({4}, Dtype::i32)); }, start, {"f32[4,0]"});
  const Value labels = in({4}, Dtype::i32);
  expect_refused<ShapeError>(
      [&] {
        softmax_cross_entropy_grad(in({5}), in({4, 2}), logits, labels);
      },
      "softmax_cross_entropy_grad", {"f32[4,10]", "f32[5]"});
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

TEST_F(Shapes, UpdatesWantVariables) {
  const Value x = in({2}), v = var({2}), m = var({2});
  const Value rate = in({}), steps = in({}, Dtype::i64), yes = in({}, Dtype::boolean);
  const std::string wanted = "is made by placeholder; wanted a variable";
  expect_refused<ArgumentError>([&] { assign(x, v); }, "assign: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { assign_add(x, v); }, "assign_add: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { update_moving_average(x, v, yes, 0.5F); }, "update_moving_average: 'x'",
                                {wanted});
  expect_refused<ArgumentError>([&] { apply_sgd(x, v, rate); }, "apply_sgd: 'x'", {wanted});
  expect_refused<ArgumentError>([&] { apply_adam(v, m, x, x, rate, steps); }, "apply_adam: 'x'", {wanted});
}

TEST_F(Shapes, UpdatesGiveNoValueAndChangeTheirVariables) {
  const Value x = in({2}), v = var({2}), m = var({2}), n = var({2});
  const Value rate = in({}), steps = in({}, Dtype::i64), yes = in({}, Dtype::boolean);
  const std::vector<Operation> updates = {assign(v, x), assign_add(v, x), update_moving_average(v, x, yes, 0.5F),
                                          apply_sgd(v, x, rate), apply_adam(v, m, n, x, rate, steps)};
  for (const Operation& update : updates) {
    const Node& node = update.node();
    EXPECT_TRUE(node.output_types().empty()) << node.label();
    EXPECT_EQ(node.op().recompute, Recompute::once) << node.label();
    const std::size_t wanted = node.op().name == "apply_adam" ? 3 : 1;
    EXPECT_EQ(node.op().updated_inputs.size(), wanted) << node.label();
  }
}

TEST_F(Shapes, UpdatesWantTheirVariablesTypeAndScalars) {
  const Value v = var({2}), m = var({2}), rate = in({}), yes = in({}, Dtype::boolean);
  expect_refused<ShapeError>([&] { assign(v, in({3})); }, "assign 'v/assign", {"f32[2]", "f32[3]"});
  expect_refused<ArgumentError>([&] { assign(v, in({2}, Dtype::i32)); }, "assign 'v/assign", {"f32[2]", "i32[2]"});
  const Value flags = var({2}, Dtype::boolean);
  expect_refused<ArgumentError>([&] { assign_add(flags, in({2}, Dtype::boolean)); }, "assign_add", {"bool[2]"});
  expect_refused<ShapeError>([&] { apply_sgd(v, in({3}), rate); }, "apply_sgd 'v/apply_sgd'", {"f32[2]", "f32[3]"});
  expect_refused<ArgumentError>([&] { apply_sgd(v, in({2}), in({1})); }, "apply_sgd 'v/apply_sgd'",
                                {"learning_rate is f32[1]"});
  expect_refused<ArgumentError>([&] { apply_adam(v, m, m, in({2}), rate, in({})); }, "apply_adam 'v/apply_adam'",
                                {"steps is f32[]", "i64[]"});
  expect_refused<ArgumentError>([&] { update_moving_average(v, in({2}), yes, -0.1F); }, "update_moving_average of 'v'",
                                {"decay -0.1"});
  // A batch that is still open may turn out to fit.
  EXPECT_NO_THROW(assign(v, in({kDynamic})));
}

}  // namespace
}  // namespace sectionflow

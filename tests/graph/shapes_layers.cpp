// Shape rules of what layers are made of; see shapes.cpp.

#include <gtest/gtest.h>

#include <array>

#include "graph/nodes/bias_add.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/softmax.h"
#include "graph/nodes/window.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/convolution.h"
#include "graph/ops/softmax.h"
#include "graph/ops/update.h"
#include "tests/graph/shapes.h"

namespace sectionflow {
namespace {

using testing_support::Shapes;

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
      const ConvolutionOptions kept{.steps = window_steps(options.stride, options.dilation, padding, options.format)};
      const ConvolutionGeometry g =
          convolution_geometry({2, height, width, 3}, {kernel_height, kernel_width, 3, 4}, kept, "c");
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
      "conv2d 'conv2d'", {"only the batch may be left to the feed"});
  expect_refused<ShapeError>([&] { conv2d(x, in({kDynamic, 3, 3, 4})); }, "conv2d 'conv2d'", {"that are known"});
  expect_refused<ShapeError>(
      [&] {
        conv2d(x, in({3, 0, 3, 4}));
      },
      "conv2d 'conv2d'", {"kernel or window of {3, 0}", "1 or more"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x, in({3, 3, 3, 4}), {.stride = {1, 0}});
      },
      "conv2d 'conv2d'", {"stride {1, 0}"});
  expect_refused<ArgumentError>(
      [&] {
        conv2d(x, in({3, 3, 3, 4}), {.padding = {-1, 0}});
      },
      "conv2d 'conv2d'", {"padding of {-1, 0}"});
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
  expect_refused<ShapeError>(
      [&] {
        softmax_cross_entropy(in({2, 4, 10}), in({2, 4}, Dtype::i32));
      },
      start, {"f32[2,4,10]", "hint:", "reshape(logits, {kDynamic, C})", "reshape(labels, {kDynamic})"});
  const Value labels = in({4}, Dtype::i32);
  expect_refused<ShapeError>(
      [&] {
        softmax_cross_entropy_grad(in({5}), in({4, 2}), logits, labels);
      },
      "softmax_cross_entropy_grad", {"f32[4,10]", "f32[5]"});
}

}  // namespace
}  // namespace sectionflow

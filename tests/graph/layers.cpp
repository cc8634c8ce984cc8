#include "graph/layers.h"

#include <gtest/gtest.h>

#include "graph/nodes/random.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/random.h"
#include "graph/ops/update.h"
#include "tests/graph/description.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

using testing_support::contains;
using testing_support::description;

/// "name f32[3,4]" of each, in order.
std::vector<std::string> typed_names(const std::vector<Value>& values) {
  std::vector<std::string> result;
  for (const Value& value : values) result.push_back(value.name() + " " + value.type().text());
  return result;
}
using Names = std::vector<std::string>;

/// The value that a variable is initialised with.
const Node& initial_node(const Graph& graph, std::string_view variable) {
  const Operation assign = initializer_of(graph.find(variable).output());
  return assign.node().inputs()[1].node();
}

void expect_filled(const Graph& graph, std::string_view variable, double value) {
  const Node& node = initial_node(graph, variable);
  ASSERT_EQ(node.op().name, "fill") << variable;
  EXPECT_EQ(node.options<FillOptions>().value, value) << variable;
  EXPECT_EQ(node.name(), std::string(variable) + "/initial_value");
}

TEST(Dense, MakesAKernelAndABias) {
  Graph graph;
  const Value y = dense(placeholder(graph, "x", {kDynamic, 5}), {.features = 7, .name = "fc"});
  EXPECT_EQ(y.type().text(), "f32[?,7]");
  EXPECT_EQ(typed_names(graph.values(kVariables)), (Names{"fc/kernel f32[5,7]", "fc/bias f32[7]"}));
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)), typed_names(graph.values(kVariables)));
  EXPECT_EQ(y.node().op().name, "bias_add");
  EXPECT_EQ(initial_node(graph, "fc/kernel").op().name, "random");
  EXPECT_EQ(initial_node(graph, "fc/kernel").options<RandomOptions>().distribution, Distribution::uniform);
  expect_filled(graph, "fc/bias", 0);
}

TEST(Dense, TreatsEveryPositionOfASequenceAlike) {
  Graph graph;
  const Value y = dense(placeholder(graph, "x", {kDynamic, 6, 5}), {.features = 7});
  EXPECT_EQ(y.type().text(), "f32[?,6,7]");
  EXPECT_EQ(typed_names(graph.values(kVariables)), (Names{"dense/kernel f32[5,7]", "dense/bias f32[7]"}));
}

TEST(LayerNormLayer, MakesScaleAndShift) {
  Graph graph;
  const Value y = layer_norm(placeholder(graph, "x", {kDynamic, 6, 5}), {.name = "ln"});
  EXPECT_EQ(y.type().text(), "f32[?,6,5]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)), (Names{"ln/scale f32[5]", "ln/shift f32[5]"}));
  expect_filled(graph, "ln/scale", 1);
  expect_filled(graph, "ln/shift", 0);
}

TEST(RmsNormLayer, MakesAScale) {
  Graph graph;
  const Value y = rms_norm(placeholder(graph, "x", {kDynamic, 6, 5}), {.name = "rn"});
  EXPECT_EQ(y.type().text(), "f32[?,6,5]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)), (Names{"rn/scale f32[5]"}));
  expect_filled(graph, "rn/scale", 1);
}

TEST(GroupNormLayer, MakesScaleAndShift) {
  Graph graph;
  const Value y = group_norm(placeholder(graph, "x", {kDynamic, 6, 6, 4}), {.groups = 2, .name = "gn"});
  EXPECT_EQ(y.type().text(), "f32[?,6,6,4]");
  const Value z = instance_norm(placeholder(graph, "x", {2, 3, kDynamic}), {.format = DataFormat::nchw});
  EXPECT_EQ(z.type().text(), "f32[2,3,?]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)),
            (Names{"gn/scale f32[4]", "gn/shift f32[4]", "instance_norm/scale f32[3]", "instance_norm/shift f32[3]"}));
  expect_filled(graph, "gn/scale", 1);
  expect_filled(graph, "instance_norm/shift", 0);
}

TEST(GroupNormLayer, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value open = placeholder(graph, "open", {4, 6, kDynamic}), row = placeholder(graph, "row", {6});
  const Value fine = placeholder(graph, "fine", {4, 3, 6}), whole = placeholder(graph, "whole", {4, 6}, Dtype::i32);
  const auto before = description(graph);
  const std::string text = error_text<ShapeError>([&] { group_norm(open, {.groups = 2, .name = "gn"}); });
  EXPECT_TRUE(contains(text, "group_norm 'gn' got [4,6,?]") && contains(text, "hint:")) << text;
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { instance_norm(open); }), "instance_norm 'instance_norm' got"));
  EXPECT_THROW(instance_norm(row), ShapeError);
  EXPECT_THROW(group_norm(fine, {.groups = 4}), ShapeError);
  EXPECT_THROW(group_norm(fine, {}), ArgumentError);
  EXPECT_THROW(group_norm(fine, {.groups = -2}), ArgumentError);
  EXPECT_THROW(group_norm(whole, {.groups = 2}), ArgumentError);
  EXPECT_THROW(instance_norm(fine, {.epsilon = -1}), ArgumentError);
  EXPECT_EQ(description(graph), before);
}

TEST(LayerNormLayer, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value open = placeholder(graph, "open", {4, kDynamic}), scalar = placeholder(graph, "scalar", {});
  const Value none = placeholder(graph, "none", {4, 0}), fine = placeholder(graph, "fine", {4, 3});
  const Value whole = placeholder(graph, "whole", {4, 3}, Dtype::i32);
  const auto before = description(graph);
  const std::string text = error_text<ShapeError>([&] { layer_norm(open, {.name = "ln"}); });
  EXPECT_TRUE(contains(text, "layer_norm 'ln' got [4,?]")) << text;
  EXPECT_THROW(layer_norm(scalar), ShapeError);
  EXPECT_THROW(layer_norm(none), ShapeError);
  EXPECT_THROW(layer_norm(whole), ArgumentError);
  EXPECT_THROW(layer_norm(fine, {.epsilon = -1}), ArgumentError);
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { rms_norm(open, {.name = "rn"}); }), "rms_norm 'rn' got [4,?]"));
  EXPECT_THROW(rms_norm(scalar), ShapeError);
  EXPECT_THROW(rms_norm(whole), ArgumentError);
  EXPECT_THROW(rms_norm(fine, {.epsilon = -1}), ArgumentError);
  EXPECT_EQ(description(graph), before);
}

TEST(Dense, WithoutBiasMakesOnlyAKernel) {
  Graph graph;
  const Value y = dense(placeholder(graph, "x", {4, 5}), {.features = 7, .bias = false});
  EXPECT_EQ(y.node().op().name, "matmul");
  EXPECT_EQ(typed_names(graph.values(kVariables)), (Names{"dense/kernel f32[5,7]"}));
}

TEST(Dense, TwoOfOneNameKeepTheirParametersApart) {
  Graph graph;
  Value x = placeholder(graph, "x", {4, 5});
  for (int i = 0; i < 2; ++i) x = dense(x, {.features = 5, .bias = false});
  EXPECT_EQ(typed_names(graph.values(kVariables)), (Names{"dense/kernel f32[5,5]", "dense_1/kernel f32[5,5]"}));
}

TEST(Dense, TakesTheInitialisersThatAreGiven) {
  Graph graph;
  dense(placeholder(graph, "x", {4, 5}),
        {.features = 3, .kernel_initializer = ones(), .bias_initializer = constant_initializer(0.5)});
  expect_filled(graph, "dense/kernel", 1);
  expect_filled(graph, "dense/bias", 0.5);
}

TEST(Dense, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value vector = placeholder(graph, "vector", {5});
  const Value open = placeholder(graph, "open", {4, kDynamic});
  const Value whole = placeholder(graph, "whole", {4, 5}, Dtype::i32);
  const Value fine = placeholder(graph, "fine", {4, 5});
  const auto before = description(graph);
  const std::string text = error_text<ShapeError>([&] { dense(vector, {.features = 3, .name = "fc"}); });
  EXPECT_TRUE(contains(text, "dense 'fc' got [5]")) << text;
  EXPECT_TRUE(contains(text, "try reshape")) << text;
  EXPECT_THROW(dense(open, {.features = 3}), ShapeError);
  EXPECT_THROW(dense(whole, {.features = 3}), ArgumentError);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { dense(fine, {}); }), "features is 0; wanted > 0"));
  EXPECT_EQ(description(graph), before);
  EXPECT_EQ(dense(fine, {.features = 3, .bias = false}).name(), "dense/matmul");
}

TEST(Conv2dLayer, MakesAKernelAndNoBiasUnlessAsked) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 28, 28, 3});
  const Value y = conv2d(x, {.features = 16, .kernel = {5, 3}, .stride = {2, 1}});
  EXPECT_EQ(y.type().text(), "f32[?,14,28,16]");
  const Value z = conv2d(x, {.features = 2, .padding = Padding::valid, .bias = true, .name = "head"});
  EXPECT_EQ(z.type().text(), "f32[?,26,26,2]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)),
            (Names{"conv2d/kernel f32[5,3,3,16]", "head/kernel f32[3,3,3,2]", "head/bias f32[2]"}));
  EXPECT_EQ(initial_node(graph, "conv2d/kernel").options<RandomOptions>().distribution, Distribution::truncated_normal);
  expect_filled(graph, "head/bias", 0);
}

TEST(Conv2dLayer, TakesGroupsDilationAndChannelsBehindTheBatch) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 9, 8});
  const Value y = conv2d(x, {.features = 4,
                             .padding = Padding::valid,
                             .dilation = {2, 1},
                             .groups = 2,
                             .format = DataFormat::nchw,
                             .bias = true});
  EXPECT_EQ(y.type().text(), "f32[?,4,5,6]");
  EXPECT_EQ(y.node().op().name, "bias_add");
  EXPECT_EQ(y.node().options<BiasAddOptions>().format, DataFormat::nchw);
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)),
            (Names{"conv2d/kernel f32[3,3,3,4]", "conv2d/bias f32[4]"}));
}

TEST(Conv3dLayer, MakesAKernelAndABias) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 9, 8, 7, 6});
  const Value y = conv3d(x, {.features = 4, .kernel = {1, 3, 3}, .stride = {2, 1, 1}, .bias = true});
  EXPECT_EQ(y.type().text(), "f32[?,5,8,7,4]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)),
            (Names{"conv3d/kernel f32[1,3,3,6,4]", "conv3d/bias f32[4]"}));
}

/// The standard deviation that he_normal gives a kernel: sqrt(2 / fan_in), of its truncated normal.
float deviation_of(const Graph& graph, std::string_view kernel) {
  return initial_node(graph, kernel).options<RandomOptions>().b;
}

TEST(ConvTransposeLayers, MakeKernelsWhoseFiltersComeFirst) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 5, 7, 6});
  const Value y = conv_transpose2d(x, {.features = 4, .kernel = {4, 4}, .stride = {2, 2}, .groups = 2, .bias = true});
  EXPECT_EQ(y.type().text(), "f32[?,10,14,4]");
  const Value deep = placeholder(graph, "deep", {2, 5, 4, 3, 6});
  const Value z = conv_transpose3d(
      deep, {.features = 4, .stride = {2, 1, 1}, .padding = {1, 1, 1}, .output_padding = {1, 0, 0}, .name = "up"});
  EXPECT_EQ(z.type().text(), "f32[2,10,4,3,4]");
  EXPECT_EQ(
      typed_names(graph.values(kTrainableVariables)),
      (Names{"conv_transpose2d/kernel f32[4,4,2,6]", "conv_transpose2d/bias f32[4]", "up/kernel f32[3,3,3,4,6]"}));
  // Each output is the sum of a quarter of the kernel's taps, over the 3 channels of its group: 12 terms, as a
  // convolution with a kernel of 2 x 2 has.
  conv2d(x, {.features = 4, .kernel = {2, 2}, .groups = 2, .name = "like"});
  EXPECT_EQ(deviation_of(graph, "conv_transpose2d/kernel"), deviation_of(graph, "like/kernel"));
}

TEST(ConvolutionLayers, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 4, 6});
  const Value deep = placeholder(graph, "deep", {2, 4, 4, 4, 6});
  const auto before = description(graph);
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { conv2d(x, {.features = 3, .groups = 4, .name = "c"}); }),
                       "conv2d 'c': 6 channels and 3 filters in 4 groups"));
  EXPECT_THROW(conv2d(x, {.features = 3, .groups = 0}), ArgumentError);
  EXPECT_THROW(conv2d(x, {.features = 3, .dilation = {0, 1}}), ArgumentError);
  EXPECT_TRUE(contains(error_text<ShapeError>([&] { conv3d(x, {.features = 3, .name = "c"}); }),
                       "conv3d 'c' got [2,4,4,6]; wanted [N, D, H, W, C] with C known"));
  EXPECT_THROW(conv_transpose2d(deep, {.features = 3}), ShapeError);
  EXPECT_THROW(conv_transpose2d(x, {.features = 3, .output_padding = {1, 0}}), ArgumentError);
  EXPECT_THROW(conv_transpose3d(deep, {.features = 0}), ArgumentError);
  EXPECT_EQ(description(graph), before);
}

TEST(Conv2dLayer, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 4, 3});
  const Value flat = placeholder(graph, "flat", {2, 48});
  const Value open = placeholder(graph, "open", {2, 4, 4, kDynamic});
  const auto before = description(graph);
  EXPECT_TRUE(contains(error_text<ShapeError>([&] {
                         conv2d(x, {.features = 3, .kernel = {5, 5}, .padding = Padding::valid, .name = "c"});
                       }),
                       "conv2d 'c': kernel of 5 is larger than the padded image of 4"));
  EXPECT_THROW(conv2d(flat, {.features = 3}), ShapeError);
  EXPECT_THROW(conv2d(open, {.features = 3}), ShapeError);
  EXPECT_THROW(conv2d(x, {.features = 0, .kernel = {1, 1}}), ArgumentError);
  EXPECT_THROW(conv2d(x, {.features = 3, .kernel = {0, 3}}), ShapeError);
  EXPECT_THROW(conv2d(x, {.features = 3, .stride = {0, 1}}), ArgumentError);
  EXPECT_EQ(description(graph), before);
}

TEST(BatchNormLayer, MakesTwoTrainedParametersAndTwoAverages) {
  Graph graph;
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value y = batch_norm(placeholder(graph, "x", {kDynamic, 8, 8, 4}), is_training, {.decay = 0.9F, .name = "bn"});
  EXPECT_EQ(y.type().text(), "f32[?,8,8,4]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)), (Names{"bn/scale f32[4]", "bn/shift f32[4]"}));
  EXPECT_EQ(typed_names(graph.values(kVariables)),
            (Names{"bn/scale f32[4]", "bn/shift f32[4]", "bn/moving_mean f32[4]", "bn/moving_variance f32[4]"}));
  expect_filled(graph, "bn/scale", 1);
  expect_filled(graph, "bn/shift", 0);
  expect_filled(graph, "bn/moving_mean", 0);
  expect_filled(graph, "bn/moving_variance", 1);
}

TEST(BatchNormLayer, TakesChannelsFromTheFormatAndHandsReluOn) {
  Graph graph;
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value x = placeholder(graph, "x", {kDynamic, 3, 8, 4});
  const Value y = batch_norm(x, is_training, {.relu = true, .format = DataFormat::nchw, .name = "bn"});
  EXPECT_EQ(y.type().text(), "f32[?,3,8,4]");
  EXPECT_EQ(typed_names(graph.values(kTrainableVariables)), (Names{"bn/scale f32[3]", "bn/shift f32[3]"}));
  EXPECT_TRUE(y.node().options<BatchNormOptions>().relu);
}

TEST(BatchNormLayer, UpdatesEachAverageFromTheMatchingStatistic) {
  Graph graph;
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  Node& norm = batch_norm(placeholder(graph, "x", {4, 3}), is_training, {.decay = 0.75F, .name = "bn"}).node();
  const auto updates = graph.operations(kUpdateOperations);
  ASSERT_EQ(updates.size(), 2U);
  const char* averages[] = {"bn/moving_mean", "bn/moving_variance"};
  for (int i = 0; i < 2; ++i) {
    const Node& update = updates[i].node();
    EXPECT_EQ(update.inputs(), (std::vector<Value>{graph.find(averages[i]).output(), norm.output(i + 1), is_training}));
    EXPECT_EQ(update.options<MovingAverageOptions>().decay, 0.75F);
    EXPECT_EQ(update.op().recompute, Recompute::once);
  }
  EXPECT_EQ(norm.inputs()[3], graph.find("bn/moving_mean").output());
  EXPECT_EQ(norm.inputs()[4], graph.find("bn/moving_variance").output());
}

TEST(BatchNormLayer, RefusedCallsLeaveNoParametersBehind) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 3});
  const Value computed = equal(x, x);
  const Value number = placeholder(graph, "number", {});
  const Value many = placeholder(graph, "many", {2}, Dtype::boolean);
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value vector = placeholder(graph, "vector", {4});
  const auto before = description(graph);
  const std::string text = error_text<ArgumentError>([&] { batch_norm(x, computed, {.name = "bn"}); });
  EXPECT_TRUE(contains(text, "batch_norm 'bn': is_training 'equal' is computed by equal")) << text;
  EXPECT_TRUE(contains(error_text<ArgumentError>([&] { batch_norm(x, number); }), "wanted bool[]"));
  EXPECT_THROW(batch_norm(x, many), ArgumentError);
  EXPECT_THROW(batch_norm(vector, is_training), ShapeError);
  EXPECT_THROW(batch_norm(x, is_training, {.decay = 1.5F}), ArgumentError);
  EXPECT_EQ(description(graph), before);
  EXPECT_TRUE(graph.operations(kUpdateOperations).empty());
}

TEST(Layers, ParametersBelongToTheGroupInWhichTheLayerIsMade) {
  Graph graph;
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const Value x = placeholder(graph, "x", {4, 3});
  const GroupId group = graph.new_group();
  {
    const auto entered = graph.enter_group(group);
    batch_norm(dense(x, {.features = 2}), is_training);
  }
  EXPECT_EQ(graph.values(kVariables, group).size(), 6U);
  for (NodeId id = x.node().id() + 1; id < graph.num_nodes(); ++id) EXPECT_EQ(graph.node(id).group(), group);
}

}  // namespace
}  // namespace sectionflow

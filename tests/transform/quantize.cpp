// Graphs of 8 bits: what becomes of weights and of operations, how far the results move, and what is refused.

#include <gmock/gmock.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"
#include "transform/quantize_nodes.h"
#include "transform/quantized_weights.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing_support::count_of;
using testing_support::FrozenCase;
using testing_support::relative_difference;

HostTensor random_tensor(const Shape& shape, std::uint64_t seed, float low, float high) {
  HostTensor tensor(Dtype::f32, shape);
  std::mt19937_64 random(seed);
  for (float& number : tensor.values<float>()) {
    number = low + (high - low) * static_cast<float>(random() % 65536) / 65536;
  }
  return tensor;
}

ValueRanges ranges_over(const InferenceGraph& graph, const std::string& name, const HostTensor& images) {
  Example example;
  example.emplace(name, images.clone());
  return calibrate(graph, Dataset::from(std::move(example)).batch({.size = images.shape()[0]}));
}

HostTensor run_of(const InferenceGraph& graph, const std::string& name, const HostTensor& images, int threads = 2) {
  Session session(*graph.graph, {.threads = threads, .check_schedules = true});
  session.initialize();
  return std::move(session.run(graph.outputs, {{graph[name], images.clone()}}).front());
}

/// A small residual network as it is served: everything in it has an operation of 8 bits, but for a softmax.
struct ResidualNet {
  explicit ResidualNet(float low = -1) : images(random_tensor({4, 12, 12, 3}, 5, low, 1)) {
    const Value x = placeholder(graph, "images", {kDynamic, 12, 12, 3});
    Value y = batch_norm(conv2d(x, {.features = 16}), {.relu = true});
    y = max_pool2d(y);
    const Value block = batch_norm(conv2d(batch_norm(conv2d(y, {.features = 16}), {.relu = true}), {.features = 16}));
    y = average_pool2d(relu(block + y), {.window = 3, .stride = 3});
    y = relu(dense(flatten(y), {.features = 32}));
    softmaxed = softmax(dense(y, {.features = 10}));
    Session session(graph);
    session.initialize();
    frozen = transform_graph(freeze(session, {softmaxed}), "fold_batch_norms fuse");
    frozen.ranges = ranges_over(frozen, "images", images);
  }
  HostTensor of(const InferenceGraph& made, int threads = 2) const { return run_of(made, "images", images, threads); }

  Graph graph;
  Value softmaxed;
  HostTensor images;
  InferenceGraph frozen;
};

TEST(QuantizeWeights, RoundsByChannelToTheNearestAndKeepsTheArithmetic) {
  const ResidualNet net;
  const InferenceGraph made = transform_graph(net.frozen, "quantize_weights(min_elements=1)");
  EXPECT_EQ(count_of(*made.graph, "dequantize"), 5);
  EXPECT_EQ(count_of(*made.graph, "fused_conv2d"), 3);
  const HostTensor before = net.of(net.frozen), after = net.of(made);
  EXPECT_LE(relative_difference(after, before), 0.02);
  EXPECT_EQ(made.outputs[0].name(), net.frozen.outputs[0].name());
  // Further transforms leave the integers, and what is rounded stays as it is.
  for (const char* text : {"fold_constants", "quantize_weights(min_elements=1)",
                           "strip_unused_nodes fold_batch_norms fuse", "sort_by_execution_order"}) {
    const InferenceGraph again = transform_graph(made, text);
    EXPECT_EQ(count_of(*again.graph, "dequantize"), 5) << text;
    EXPECT_EQ(first_difference(net.of(again), after), "") << text;
  }
  EXPECT_EQ(count_of(*transform_graph(net.frozen, "quantize_weights(min_elements=1000000)").graph, "dequantize"), 0);
}

TEST(QuantizeWeights, ErrsByHalfAScaleAtMost) {
  HostTensor numbers = random_tensor({5, 7, 6}, 3, -2, 2);
  for (std::size_t i = 0; i < 5; ++i) numbers.values<float>()[i * 42 + 3] = 0;
  for (const int axis : {0, 1, 2}) {
    const auto made = quantized_weights(numbers, axis);
    ASSERT_TRUE(made);
    const std::size_t channels = made->scales->values<float>().size(), inner = axis == 0 ? 42 : axis == 1 ? 6 : 1;
    for (std::size_t i = 0; i < 210; ++i) {
      const float scale = made->scales->values<float>()[i / inner % channels];
      EXPECT_NEAR(scale * static_cast<float>(made->integers->values<std::int8_t>()[i]), numbers.values<float>()[i],
                  0.501F * scale);
    }
  }
  EXPECT_EQ(quantized_weights(HostTensor(Dtype::f32, {2, 2}), 1)->scales->values<float>()[0], 1);
  EXPECT_FALSE(quantized_weights(HostTensor::of<float>({1, 2}, {1, std::nanf("")}), 1));
  EXPECT_FALSE(quantized_weights(HostTensor::of<float>({1, 2}, {1, HUGE_VALF}), 1));
}

TEST(QuantizeWeights, TakesTheChannelsOfWhatReadsTheWeights) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 40}), ids = placeholder(graph, "ids", {3}, Dtype::i32);
  const Value w = constant(graph, random_tensor({30, 40}, 1, -1, 1)),
              table = constant(graph, random_tensor({50, 40}, 2, -1, 1));
  const Value y = matmul(x, w, {.transpose_b = true}), z = gather(table, ids);
  const InferenceGraph made = transform_graph(graph, {y, z}, "quantize_weights");
  ASSERT_EQ(count_of(*made.graph, "dequantize"), 2);
  const auto scales_of = [](const Value& numbers) { return numbers.node().inputs()[1].shape(); };
  EXPECT_EQ(scales_of(made.outputs[0].node().inputs()[1]), Shape{30});
  EXPECT_EQ(scales_of(made.outputs[1].node().inputs()[0]), Shape{50});
}

TEST(QuantizeNodes, ComputesAllThatItCanWithIntegers) {
  for (const float low : {-1.0F, 0.0F}) {
    const ResidualNet net(low);
    const InferenceGraph made = transform_graph(net.frozen, "quantize_nodes");
    EXPECT_EQ(count_of(*made.graph, "quantized_conv2d"), 3);
    EXPECT_EQ(count_of(*made.graph, "quantized_matmul"), 2);
    EXPECT_EQ(count_of(*made.graph, "quantized_max_pool2d"), 1);
    EXPECT_EQ(count_of(*made.graph, "quantized_average_pool2d"), 1);
    EXPECT_EQ(count_of(*made.graph, "quantize"), 1);  // of the images
    EXPECT_EQ(count_of(*made.graph, "dequantize") + count_of(*made.graph, "relu") + count_of(*made.graph, "add"), 0);
    EXPECT_LE(relative_difference(net.of(made), net.of(net.frozen)), 0.05);
    EXPECT_EQ(made.outputs[0].name(), net.frozen.outputs[0].name());
    const QuantizeReport report = quantize_report(net.frozen);
    EXPECT_EQ(report.num_quantized(), static_cast<int>(report.nodes.size()) - 1) << report.text();
    EXPECT_THAT(report.text(), HasSubstr("softmax 'softmax' stays f32: there is none of 8 bits"));
  }
}

TEST(QuantizeNodes, TellsWhichTransformTakesAwayWhatStaysFloat) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 8}), off = constant(graph, HostTensor::scalar(false));
  const Value dropped = dropout(x, off, {.rate = 0.5F});
  const Value rounded = fake_quantize(dropped, constant(graph, 0.0F), constant(graph, 1.0F));
  const std::string report = quantize_report(transform_graph(graph, {rounded}, "")).text();
  EXPECT_THAT(report, HasSubstr("remove_nodes(op=dropout) leaves it out"));
  EXPECT_THAT(report, HasSubstr("take_ranges, before the others"));
}

TEST(QuantizeNodes, GivesTheSameBitsForEveryNumberOfThreads) {
  const ResidualNet net;
  const InferenceGraph made = transform_graph(net.frozen, "quantize_nodes");
  EXPECT_EQ(first_difference(net.of(made, 1), net.of(made, 2)), "");
}

TEST(QuantizeNodes, TakesWeightsThatAreIntegersAsTheyAre) {
  const ResidualNet net;
  const InferenceGraph made = transform_graph(net.frozen, "quantize_weights(min_elements=1) quantize_nodes");
  EXPECT_EQ(count_of(*made.graph, "dequantize"), 0);
  EXPECT_EQ(first_difference(net.of(made), net.of(transform_graph(net.frozen, "quantize_nodes"))), "");
}

TEST(QuantizeNodes, RefusesAGraphWithoutRangesAndSaysHowToFindThem) {
  ResidualNet net;
  net.frozen.ranges = {};
  const std::string text = error_text<ArgumentError>([&] { (void)transform_graph(net.frozen, "quantize_nodes"); });
  EXPECT_THAT(text, HasSubstr("no ranges of 'images', "));
  EXPECT_THAT(text, HasSubstr("calibrate("));
  EXPECT_GT(quantize_report(net.frozen).num_quantized(), 5);  // which needs none
}

TEST(QuantizeNodes, LeavesWhatItCannotWithTheReason) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 4}), fed = placeholder(graph, "w", {3, 3, 4, 4});
  const Value w = constant(graph, random_tensor({3, 3, 4, 4}, 1, -1, 1));
  const Value other = conv2d(x, fed),
              turned = conv2d(x, constant(graph, random_tensor({1, 1, 6, 4}, 1, -1, 1)), {.format = DataFormat::nchw});
  const Value y = relu(conv2d(x, w)), pooled = max_pool2d(x);
  HostTensor wild = random_tensor({1, 1, 4, 4}, 1, -1, 1);
  wild.values<float>()[3] = HUGE_VALF;
  const Value z = conv2d(y, constant(graph, std::move(wild)));
  InferenceGraph made = transform_graph(graph, {other, turned, pooled, z}, "");
  const std::string text = quantize_report(made).text();
  EXPECT_THAT(text, HasSubstr("its weights are no constants"));
  EXPECT_THAT(text, HasSubstr("its channels are not the last axis"));
  EXPECT_THAT(text, HasSubstr("its weights are not finite"));
  EXPECT_THAT(text, HasSubstr("max_pool2d 'max_pool2d' stays f32: what it reads is f32"));
  EXPECT_THAT(text, HasSubstr("2 of 6 operations compute with 8 bits"));
  // One convolution and its relu are left; its result is read as f32.
  made.ranges.set("x", {-1, 1});
  const InferenceGraph integers = transform_graph(made, "quantize_nodes");
  EXPECT_EQ(count_of(*integers.graph, "quantized_conv2d"), 1);
  EXPECT_EQ(count_of(*integers.graph, "conv2d"), 3);
}

TEST(QuantizeNodes, GivesNumbersAndIntegersWhereBothAreRead) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 4, 8}), w = constant(graph, random_tensor({1, 1, 8, 8}, 1, -1, 1));
  const Value y = conv2d(x, w), z = conv2d(y, w), sum = y + z;
  InferenceGraph frozen = transform_graph(graph, {y, sum, sigmoid(y)}, "");
  const HostTensor images = random_tensor({2, 4, 4, 8}, 8, -1, 1);
  frozen.ranges = ranges_over(frozen, "x", images);
  const InferenceGraph made = transform_graph(frozen, "quantize_nodes");
  EXPECT_EQ(count_of(*made.graph, "quantized_conv2d"), 2);
  EXPECT_EQ(count_of(*made.graph, "quantized_add"), 1);
  EXPECT_EQ(count_of(*made.graph, "dequantize"), 1);
  EXPECT_EQ(made.outputs[0].name(), y.name());
  EXPECT_LE(relative_difference(run_of(made, "x", images), run_of(frozen, "x", images)), 0.02);
}

TEST(QuantizeNodes, ReadsAResidualAsNumbersWhereNothingOfItsOwnMakesIntegers) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 4, 4, 8}), w = constant(graph, random_tensor({1, 1, 8, 8}, 1, -1, 1));
  const Value y = conv2d(relu(conv2d(x, w)), w) + x;
  InferenceGraph fused = transform_graph(graph, {conv2d(y, w) + y}, "fuse");
  fused.ranges = ranges_over(fused, "x", random_tensor({2, 4, 4, 8}, 8, -1, 1));
  const InferenceGraph made = transform_graph(fused, "quantize_nodes");
  const Node& last = made.outputs[0].node();
  ASSERT_EQ(last.inputs().size(), 5U);
  EXPECT_EQ(last.inputs()[4].dtype(), Dtype::i8);  // that of a product
  // x becomes integers for the first convolution, however that may be: what is added is x itself.
  ASSERT_EQ(last.inputs()[0].node().inputs().size(), 5U);
  EXPECT_EQ(last.inputs()[0].node().inputs()[4].dtype(), Dtype::f32);
}

TEST(QuantizeNodes, EndsIntegersWhereAClipDoes) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 3});
  const Value first = clip(conv2d(x, {.features = 8, .bias = true}), 0, 0.5F);
  const Value second = clip(conv2d(first, {.features = 8}), 0, 0.25F);  // its numbers alone are read
  Session session(graph);
  session.initialize();
  InferenceGraph frozen = transform_graph(freeze(session, {sigmoid(second)}), "fuse");
  const HostTensor images = random_tensor({4, 6, 6, 3}, 6, -2, 2);
  frozen.ranges = ranges_over(frozen, "x", images);
  const InferenceGraph made = transform_graph(frozen, "quantize_nodes");
  EXPECT_EQ(count_of(*made.graph, "quantized_conv2d"), 2);
  EXPECT_EQ(count_of(*made.graph, "clip"), 1);
  EXPECT_EQ(count_of(*made.graph, "quantize"), 1);
  EXPECT_LE(relative_difference(run_of(made, "x", images), run_of(frozen, "x", images)), 0.02);
  // A range that is wider than the clip's does not widen it.
  frozen.ranges.set(frozen[first.name()], {-3, 9});
  const InferenceGraph wide = transform_graph(frozen, "quantize_nodes");
  EXPECT_EQ(first_difference(run_of(wide, "x", images), run_of(made, "x", images)), "");
}

TEST(QuantizedGraphs, LieInFilesOfAQuarterOfTheBytes) {
  Graph graph;
  const Value x = placeholder(graph, "images", {kDynamic, 8, 8, 64});
  const Value y = dense(flatten(conv2d(x, {.features = 64})), {.features = 100});
  Session session(graph);
  session.initialize();
  InferenceGraph frozen = freeze(session, {y});
  const HostTensor images = random_tensor({2, 8, 8, 64}, 6, 0, 1);
  frozen.ranges = ranges_over(frozen, "images", images);
  const TemporaryFolder folder;
  const auto bytes_of = [&](const InferenceGraph& made) {
    save_inference_graph(made, folder.path() / "model");
    return static_cast<double>(std::filesystem::file_size(folder.path() / "model"));
  };
  const double wide = bytes_of(frozen);
  for (const char* text : {"quantize_weights", "quantize_nodes", "quantize_weights quantize_nodes"}) {
    const InferenceGraph made = transform_graph(frozen, text);
    EXPECT_LE(bytes_of(made) / wide, 0.27) << text;
    const InferenceGraph loaded = load_inference_graph(folder.path() / "model");
    EXPECT_EQ(first_difference(run_of(loaded, "images", images), run_of(made, "images", images)), "") << text;
  }
}

TEST(QuantizedGraphs, OfHostileRangesAreRefusedOrRun) {
  // Ranges of a file that anybody may have written: as wide, as narrow and as far off as they may be.
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (const ValueRange range :
       {ValueRange{0, 0}, {-least, least}, {0, least}, {-most, most}, {0, most}, {most, most}}) {
    ResidualNet net;
    std::vector<std::string> names;
    for (const auto& [name, unused] : net.frozen.ranges) names.push_back(name);
    for (const std::string& name : names) net.frozen.ranges.set(name, range);
    const InferenceGraph made = transform_graph(net.frozen, "quantize_nodes");
    EXPECT_EQ(first_difference(net.of(made, 1), net.of(made, 2)), "") << range.maximum;
  }
}

TEST(QuantizedGraphs, InRandomOrdersGiveTheSameBits) {
  const std::vector<std::string> exact = {"strip_unused_nodes", "fold_constants", "sort_by_execution_order",
                                          "fold_constants(max_bytes=0)"};
  for (std::uint64_t seed = 40; seed < 43; ++seed) {
    FrozenCase it(seed);
    it.frozen = transform_graph(it.frozen, "fold_batch_norms fuse");
    it.frozen.ranges = ranges_over(it.frozen, it.trainable.model.images.name(), it.images);
    std::mt19937_64 random(seed);
    for (const std::string passes :
         {"quantize_weights(min_elements=16)", "quantize_nodes", "quantize_weights(min_elements=16) quantize_nodes"}) {
      const HostTensor wanted = it.of(transform_graph(it.frozen, passes));
      std::string text;
      for (int i = 0; i < 2; ++i) text += exact[random() % exact.size()] + " ";
      text += passes;
      for (int i = 0; i < 2; ++i) text += " " + exact[random() % exact.size()];
      EXPECT_EQ(first_difference(it.of(transform_graph(it.frozen, text)), wanted), "")
          << "seed " << seed << ": " << text;
    }
  }
}

}  // namespace
}  // namespace sectionflow

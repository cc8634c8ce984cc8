// Ranges of tensors: what is one, where they go when a graph becomes another, and how they are found.

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "data/safetensors.h"
#include "graph/graph_file.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"
#include "transform/magnitudes.h"
#include "transform/ranges_text.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;

/// A convolution, a batch norm and a relu, whose input is called "x".
struct NormedConvolution {
  NormedConvolution() {
    const Value x = placeholder(graph, "x", {kDynamic, 4, 4, 2});
    const Value y = conv2d(x, {.features = 3, .kernel = {3, 3}, .bias = false, .name = "conv"});
    const Value normed = batch_norm(y, {.name = "norm"});
    const Value result = relu(normed);
    Session session(graph, {.seed = 3});
    session.initialize();
    frozen = freeze(session, {result});
    names = {x.name(), y.name(), normed.name(), result.name()};
  }
  Graph graph;
  InferenceGraph frozen;
  std::vector<std::string> names;  // of x, the convolution, the batch norm and the relu
};

Dataset batches_of(const std::string& tensor, std::vector<std::vector<float>> rows) {
  const auto shared = std::make_shared<std::vector<std::vector<float>>>(std::move(rows));
  return Dataset::generate("rows", [=](std::int64_t i) -> std::optional<Example> {
    if (i >= static_cast<std::int64_t>(shared->size())) return std::nullopt;
    const auto& row = (*shared)[static_cast<std::size_t>(i)];
    Example example;
    example.emplace(tensor, HostTensor::of<float>({1, static_cast<std::int64_t>(row.size())}, row));
    return example;
  });
}

TEST(ValueRanges, AreFiniteAndInOrder) {
  ValueRanges ranges;
  ranges.set("x", {-1, 2});
  EXPECT_EQ(ranges.of("x"), (ValueRange{-1, 2}));
  EXPECT_EQ(ranges.of("y"), std::nullopt);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const ValueRange& wrong : {ValueRange{1, 0}, ValueRange{0, infinity}, ValueRange{std::nanf(""), 1}}) {
    EXPECT_THAT(whole_error_text<ArgumentError>([&] { ranges.set("x", wrong); }), HasSubstr("the range of 'x'"));
  }
  EXPECT_EQ(ranges.of("x"), (ValueRange{-1, 2}));
}

TEST(ValueRanges, StayWithTensorsThatKeepTheirValues) {
  NormedConvolution it;
  for (std::size_t i = 0; i < it.names.size(); ++i) it.frozen.ranges.set(it.names[i], {0, static_cast<float>(i + 1)});
  EXPECT_EQ(transform_graph(it.frozen, "").ranges, it.frozen.ranges);
  EXPECT_EQ(transform_graph(it.frozen, "strip_unused_nodes sort_by_execution_order fold_constants").ranges,
            it.frozen.ranges);
  // The folded convolution has its name and other values.
  const InferenceGraph folded = transform_graph(it.frozen, "fold_batch_norms");
  EXPECT_EQ(folded.ranges.of(it.names[1]), std::nullopt);
  EXPECT_EQ(folded.ranges.of(it.names[2]), (ValueRange{0, 3}));
  const InferenceGraph fused = transform_graph(folded, "fuse");
  EXPECT_EQ(fused.ranges.of(it.names[2]), std::nullopt);
  EXPECT_EQ(fused.ranges.of(it.names[3]), (ValueRange{0, 4}));
  EXPECT_EQ(fused.ranges.of("x"), (ValueRange{0, 1}));
}

TEST(ValueRanges, GoWhereRemovedOperationsLeaveOtherValues) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), y = neg(stop_gradient(x)), positive = relu(y), z = abs(positive);
  InferenceGraph given = transform_graph(graph, {z}, "");
  for (const Value& value : {x, y, positive, z}) given.ranges.set(value, {0, 1});
  EXPECT_EQ(transform_graph(given, "remove_nodes(op=stop_gradient)").ranges, given.ranges);
  // Without the relu what is behind it has other values, and its range is not that of what it read.
  given.ranges.drop(y.name());
  const ValueRanges left = transform_graph(given, "remove_nodes(op=relu)").ranges;
  EXPECT_EQ(left.size(), 1U);
  EXPECT_EQ(left.of(x), (ValueRange{0, 1}));
}

TEST(ValueRanges, OfNoTensorOfTheGraphAreRefused) {
  const TemporaryFolder folder;
  NormedConvolution it;
  it.frozen.ranges.set("xx", {0, 1});
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { transform_graph(it.frozen, "fuse"); }),
              HasSubstr("did you mean 'x'"));
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { save_inference_graph(it.frozen, folder.path() / "model"); }),
              HasSubstr("has no tensor 'xx'"));
}

TEST(ValueRanges, LieInFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "model.safetensors";
  NormedConvolution it;
  it.frozen.ranges.set("x", {-0.1F, 1e-38F});
  it.frozen.ranges.set(it.names[3], {0, 3.4e38F});
  save_inference_graph(it.frozen, path);
  const InferenceGraph loaded = load_inference_graph(path);
  EXPECT_EQ(loaded.ranges, it.frozen.ranges);
  SafetensorsFile file = read_safetensors(path);
  const auto refusal = [&](const std::string& ranges) {
    file.metadata["sectionflow_ranges"] = ranges;
    write_safetensors(path, views_of(file.tensors), file.metadata);
    return whole_error_text<DataError>([&] { load_inference_graph(path); });
  };
  EXPECT_THAT(refusal("{}"), HasSubstr("'ranges'"));
  EXPECT_THAT(refusal("[1"), HasSubstr("SF-E402"));
  EXPECT_THAT(refusal(R"({"ranges": [{"tensor": "x", "minimum": 1, "maximum": 0}]})"), HasSubstr("below its minimum"));
  EXPECT_THAT(refusal(R"({"ranges": [{"tensor": "x", "minimum": 0, "maximum": 1e39}]})"),
              HasSubstr("ranges[0].maximum"));
  EXPECT_THAT(refusal(R"({"ranges": [{"tensor": "x", "minimum": 0, "maximum": "nan:7ff8000000000000"}]})"),
              HasSubstr("ranges[0].maximum"));
  EXPECT_THAT(refusal(R"({"ranges": [{"tensor": "z", "minimum": 0, "maximum": 1}]})"), HasSubstr("has no tensor 'z'"));
  const std::string x = R"({"tensor": "x", "minimum": 0, "maximum": 1})";
  EXPECT_THAT(refusal("{\"ranges\": [" + x + "," + x + "]}"), HasSubstr("twice"));
}

/// relu(x) + x of rows called "x".
struct Rows {
  explicit Rows(std::int64_t width = 4) {
    const Value x = placeholder(graph, "x", {kDynamic, width});
    const Value positive = relu(x);
    const Value sum = add(positive, x);
    names = {x.name(), positive.name(), sum.name()};
    Session session(graph);
    session.initialize();
    frozen = freeze(session, {sum});
  }
  Graph graph;
  InferenceGraph frozen;
  std::vector<std::string> names;
};

TEST(Calibrate, FindsTheLeastAndTheLargestValueOfEachTensor) {
  const Rows it;
  const Dataset batches = batches_of("x", {{-1, 0, 1, 2}, {-3, 0, 0, 5}, {0, 0, 0, 0}});
  const ValueRanges all = calibrate(it.frozen, batches);
  EXPECT_EQ(all.size(), 3U);
  EXPECT_EQ(all.of(it.names[0]), (ValueRange{-3, 5}));
  EXPECT_EQ(all.of(it.names[1]), (ValueRange{0, 5}));
  EXPECT_EQ(all.of(it.names[2]), (ValueRange{-3, 10}));
  EXPECT_EQ(calibrate(it.frozen, batches, {.max_batches = 1}).of("x"), (ValueRange{-1, 2}));
  // Tensors that do not fit together are looked at one after the other.
  EXPECT_EQ(calibrate(it.frozen, batches, {.host_memory = 1}), all);
  EXPECT_EQ(calibrate(it.frozen, batches_of("image", {{1, 2, 3, 4}}), {.tensors = {{"x", "image"}}}).of("x"),
            (ValueRange{1, 4}));
}

TEST(Calibrate, CutsOffWhatIsRare) {
  constexpr std::int64_t kWidth = 1000;
  const std::uint64_t seed = 5;
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> rows(4, std::vector<float>(kWidth));
  for (auto& row : rows) {
    for (float& each : row) each = normal(random);
  }
  rows[2][17] = 100;
  const Rows it(kWidth);
  const Dataset batches = batches_of("x", rows);
  for (const auto method : {CalibrationMethod::percentile, CalibrationMethod::entropy}) {
    const ValueRanges found = calibrate(it.frozen, batches, {.method = method, .percentile = 99});
    const ValueRange x = found.of("x").value(), positive = found.of(it.names[1]).value();
    EXPECT_LT(x.maximum, 15);
    EXPECT_GT(x.maximum, 1);
    EXPECT_LT(x.minimum, -1);
    EXPECT_EQ(positive.minimum, 0);
    EXPECT_EQ(found, calibrate(it.frozen, batches, {.method = method, .percentile = 99}));
  }
  EXPECT_EQ(calibrate(it.frozen, batches, {.method = CalibrationMethod::percentile, .percentile = 100}).of("x"),
            calibrate(it.frozen, batches).of("x"));
}

TEST(Calibrate, RefusesWhatIsNoCalibration) {
  Rows it;
  const Dataset some = batches_of("x", {{0, 0, 0, 1}});
  const auto refusal = [&](const Dataset& batches, const CalibrationOptions& options) {
    return whole_error_text<ArgumentError>([&] { calibrate(it.frozen, batches, options); });
  };
  EXPECT_THAT(refusal(batches_of("x", {}), {}), HasSubstr("SF-E603"));
  EXPECT_THAT(refusal(some.repeat(), {}), HasSubstr("no end"));
  EXPECT_THAT(refusal(batches_of("y", {{0, 0, 0, 1}}), {}), HasSubstr("have 'y'"));
  EXPECT_THAT(refusal(some, {.tensors = {{"xx", "x"}}}), HasSubstr("did you mean 'x'"));
  EXPECT_THAT(refusal(some, {.percentile = 0}), HasSubstr("percentile is 0"));
  EXPECT_THAT(refusal(some, {.max_batches = -1}), HasSubstr("max_batches is -1"));
  EXPECT_THAT(refusal(some, {.method = static_cast<CalibrationMethod>(7)}), HasSubstr("number 7"));
  Example rows;
  rows.emplace("x", HostTensor(Dtype::f32, {3, 4}));
  const Dataset single = Dataset::from(std::move(rows));
  EXPECT_THAT(whole_error_text<ShapeError>([&] { calibrate(it.frozen, single); }), HasSubstr("with batch()"));
  const std::string infinite = refusal(batches_of("x", {{3e38F, 0, 0, 1}}), {});
  EXPECT_THAT(infinite, HasSubstr("SF-E605"));
  EXPECT_THAT(infinite, HasSubstr("'add'"));
  EXPECT_THAT(whole_error_text<ArgumentError>([] { calibration_method("entropi"); }), HasSubstr("'entropy'"));
  EXPECT_EQ(calibration_method("percentile"), CalibrationMethod::percentile);
}

TEST(TakeRanges, HandsThoseOfTrainingToIntegers) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 8}), positive = relu(x);
  Value y;
  {
    const FakeQuantization eight_bits(graph);
    y = dense(positive, {.features = 6});
  }
  Session session(graph, {.seed = 5});
  session.initialize();
  HostTensor batch(Dtype::f32, {9, 8});
  for (std::size_t i = 0; i < 72; ++i) batch.values<float>()[i] = 0.173F * static_cast<float>(i % 31) - 1;
  session.run({{x, batch}, {graph.training(), true}}, {.targets = graph.operations(kUpdateOperations)});
  const InferenceGraph rounded = freeze(session, {y});
  EXPECT_EQ(testing_support::count_of(*rounded.graph, "fake_quantize"), 2);

  const InferenceGraph taken = transform_graph(rounded, "take_ranges");
  EXPECT_EQ(testing_support::count_of(*taken.graph, "fake_quantize"), 0);
  const ValueRange range = taken.ranges.of(positive.name()).value();
  EXPECT_EQ(range.minimum, 0);
  EXPECT_NEAR(static_cast<double>(range.maximum), 0.173 * 30 - 1, 1e-5);
  const ValueRanges found = calibrate(taken, batches_of("x", {std::vector<float>(8, 9)}));
  EXPECT_EQ(found.of(positive.name()), range);
  EXPECT_EQ(found.of("x"), (ValueRange{9, 9}));

  // The integers are those that training has rounded to.
  const InferenceGraph integers = transform_graph(taken, "quantize_nodes");
  EXPECT_EQ(testing_support::count_of(*integers.graph, "quantized_matmul"), 1);
  const auto answer = [&](const InferenceGraph& made) {
    Session inference(*made.graph);
    inference.initialize();
    return std::move(inference.run(made.outputs, {{made["x"], batch}}).front());
  };
  EXPECT_LT(testing_support::relative_difference(answer(integers), answer(rounded)), 1e-5);
}

TEST(TakeRanges, LeavesARangeOfZerosToExamples) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 8}), zero = constant(graph, 0.0F);
  HostTensor w(Dtype::f32, {8, 2});
  for (std::size_t i = 0; i < 16; ++i) w.values<float>()[i] = 0.1F;
  const Value y = matmul(fake_quantize(x, zero, zero), constant(graph, std::move(w)));
  InferenceGraph taken = transform_graph(graph, {y}, "take_ranges");
  EXPECT_EQ(testing_support::count_of(*taken.graph, "fake_quantize"), 0);
  EXPECT_TRUE(taken.ranges.empty());
  EXPECT_THAT(whole_error_text<ArgumentError>([&] { (void)transform_graph(taken, "quantize_nodes"); }),
              HasSubstr("no ranges of 'x'"));
  taken.ranges = calibrate(taken, batches_of("x", {std::vector<float>(8, 0.25F)}));
  EXPECT_EQ(taken.ranges.of("x"), (ValueRange{0.25F, 0.25F}));
}

TEST(Magnitudes, CutWhereTheDistributionSuffersLeast) {
  Magnitudes even(1);
  for (int i = 1; i <= 100000; ++i) even.add(static_cast<float>(i) / 100000);
  EXPECT_EQ(even.count(), 100000);
  EXPECT_NEAR(even.percentile(50), 0.5, 1.0 / 1024);
  EXPECT_EQ(even.least_divergence(128), 1);  // nothing is rare
  Magnitudes outlier(100);
  for (int i = 1; i <= 100000; ++i) outlier.add(10 * static_cast<float>(i) / 100000);
  outlier.add(100);
  EXPECT_LT(outlier.least_divergence(128), 11);
  Magnitudes zeros(0);
  zeros.add(0);
  EXPECT_EQ(zeros.percentile(99), 0);
  EXPECT_EQ(zeros.least_divergence(256), 0);
}

}  // namespace
}  // namespace sectionflow

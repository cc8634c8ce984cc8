#include "graph/ops/batch_norm.h"

#include <cmath>
#include <limits>
#include <string>

#include "autodiff/gradients.h"
#include "device/cpu_device.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "kernels/kernel_registry.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

constexpr double kBatchNormEpsilon = 1e-3F;

struct ChannelMoments {
  Doubles mean, variance;
};

/// `channel_of(i)`: of the element i.
template <class ChannelOf>
ChannelMoments channel_moments(const Doubles& x, std::size_t channels, const ChannelOf& channel_of) {
  const std::size_t count = channels == 0 ? 0 : x.size() / channels;
  ChannelMoments of{Doubles(channels), Doubles(channels)};
  if (count == 0) return of;
  for (std::size_t i = 0; i < x.size(); ++i) of.mean[channel_of(i)] += x[i] / static_cast<double>(count);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double centred = x[i] - of.mean[channel_of(i)];
    of.variance[channel_of(i)] += centred * centred / static_cast<double>(count);
  }
  return of;
}

/// Elements of a channel that are neighbours.
std::size_t plane_of(const Shape& x, DataFormat format) {
  std::int64_t plane = 1;
  for (int axis = 2; format == DataFormat::nchw && axis < x.rank(); ++axis) plane *= x[axis];
  return static_cast<std::size_t>(plane);
}

// Inputs: x, scale, shift, running mean, running variance, is_training.
std::vector<Doubles> batch_norm_reference(const std::vector<Doubles>& in, std::size_t plane, bool relu) {
  const std::size_t channels = in[1].size();
  const auto channel_of = [&](std::size_t i) { return i / plane % channels; };
  const ChannelMoments moments =
      in[5][0] != 0 ? channel_moments(in[0], channels, channel_of) : ChannelMoments{in[3], in[4]};
  Doubles y = in[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = channel_of(i);
    y[i] = (y[i] - moments.mean[c]) / std::sqrt(moments.variance[c] + kBatchNormEpsilon) * in[1][c] + in[2][c];
    if (relu && y[i] < 0) y[i] = 0;
  }
  return {y, moments.mean, moments.variance};
}

OpCase batch_norm_case(const std::string& name, CaseInput x, bool training, BatchNormOptions options = {}) {
  const Shape channels{x.type.shape[channel_axis(options.format)]};
  const std::size_t plane = plane_of(x.type.shape, options.format);
  CaseInput running_mean = parameter(channels), running_variance = parameter(channels, 0.5, 2);
  running_mean.differentiable = running_variance.differentiable = false;
  return {.name = name + (training ? "_training" : "_running"),
          .inputs = {std::move(x), parameter(channels, 0.5, 1.5), parameter(channels), running_mean, running_variance,
                     boolean_input(training)},
          .build =
              [options](Graph&, const std::vector<Value>& in) {
                const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], in[3], in[4], in[5], options);
                return std::vector{y, mean, variance};
              },
          .reference = [=](const std::vector<Doubles>& in) { return batch_norm_reference(in, plane, options.relu); },
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .step = options.relu ? 1e-8 : 1e-5,  // a small one meets hardly any kink
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

const BatchNormOptions kNchw{.format = DataFormat::nchw};
const BatchNormOptions kRelu{.relu = true};
const BatchNormOptions kReluNchw{.relu = true, .format = DataFormat::nchw};

std::vector<OpCase> batch_norm_cases() {
  std::vector<OpCase> all;
  for (bool training : {true, false}) {
    for (std::int64_t channels : {1, 3, 8, 10, 16, 17, 24, 32, 63, 64, 100, 257, 300}) {
      for (std::int64_t rows : {2, 7, 500}) {
        const std::string name = "rows_" + std::to_string(rows) + "_channels_" + std::to_string(channels);
        all.push_back(batch_norm_case(name, input({rows, channels}), training));
      }
    }
    all.push_back(batch_norm_case("sequences", input({5, 6, 10}), training));
    all.push_back(batch_norm_case("images", input({7, 9, 8, 16}), training));
    all.push_back(batch_norm_case("many_blocks_of_images", input({7, 28, 28, 17}), training));
    all.push_back(batch_norm_case("many_blocks_of_packs", input({3, 60, 61, 16}), training));
    all.push_back(batch_norm_case("many_blocks_of_one_channel", input({70000, 1}), training));
    all.push_back(batch_norm_case("one_row", input({1, 10}), training));
    all.push_back(batch_norm_case("no_rows", input({0, 10}), training));
    all.push_back(batch_norm_case("many_channels", input({3, 50, 1030}), training));
    all.push_back(batch_norm_case("relu_few_channels", input({70, 3}), training, kRelu));
    all.push_back(batch_norm_case("relu_images", input({7, 9, 8, 16}), training, kRelu));
    all.push_back(batch_norm_case("relu_many_channels", input({80, 300}), training, kRelu));
    all.push_back(batch_norm_case("relu_no_rows", input({0, 10}), training, kRelu));
    for (std::int64_t plane : {1, 2, 31, 33, 64, 300}) {
      all.push_back(batch_norm_case("nchw_plane_" + std::to_string(plane), input({6, 5, plane}), training, kNchw));
    }
    all.push_back(batch_norm_case("nchw_vectors", input({6, 70}), training, kNchw));
    all.push_back(batch_norm_case("nchw_images", input({7, 16, 9, 8}), training, kNchw));
    all.push_back(batch_norm_case("nchw_many_blocks", input({1100, 17, 2, 3}), training, kNchw));
    all.push_back(batch_norm_case("nchw_large_planes", input({2, 3, 150, 151}), training, kNchw));
    all.push_back(batch_norm_case("nchw_volumes", input({2, 3, 4, 5, 6}), training, kNchw));
    all.push_back(batch_norm_case("nchw_no_images", input({0, 3, 4, 4}), training, kNchw));
    all.push_back(batch_norm_case("nchw_relu_images", input({7, 16, 9, 8}), training, kReluNchw));
  }
  return all;
}

class BatchNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(BatchNormCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BatchNormCases, testing::ValuesIn(batch_norm_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Bf16, BatchNormCases,
                         testing::Values(in_bf16(batch_norm_case("images", input({7, 9, 8, 16}), true), {0}),
                                         in_bf16(batch_norm_case("relu", input({70, 3}), true, kRelu), {0}),
                                         in_bf16(batch_norm_case("odd", input({5, 6, 10}), false), {0}),
                                         in_bf16(batch_norm_case("nchw", input({7, 16, 9, 8}), true, kNchw), {0})),
                         case_name);

TEST(BatchNorm, VarianceOfValuesFarFromZeroIsAccurate) {
  // E[x^2] - E[x]^2 in f32 would lose every digit of a variance of 1/3 beside a mean of 1000.
  OpCase far = batch_norm_case("far_from_zero", input({20000, 3}, 999, 1001), true);
  // One rounding of the mean moves every y by 1000 / sqrt(1/3) / 2 epsilons.
  far.tolerance = {.relative = 8, .absolute = 2000};
  far.gradient_outputs = {};
  check(far);
}

TEST(BatchNorm, ReplayReadsTheKeptStatistics) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 1}), per_channel = placeholder(graph, "c", {1});
  const Value is_training = constant(graph, HostTensor::scalar(true));
  const Node& node =
      batch_norm(x, per_channel, per_channel, per_channel, per_channel, is_training, {.epsilon = 0}).y.node();
  CpuDevice device(1);
  const TensorType channel = per_channel.type();
  const auto kernel = kernel_registry(DeviceKind::cpu)
                          .make({.node = node,
                                 .inputs = {x.type(), channel, channel, channel, channel, is_training.type()},
                                 .outputs = node.output_types(),
                                 .host_booleans = {{}, {}, {}, {}, {}, true},
                                 .replay = true,
                                 .device = device});
  // Numbers that no statistics of this x would give.
  const float content[] = {3, 5}, scale = 1, shift = 0;
  float y[2], mean = 1, variance = 4;
  const void* inputs[] = {content, &scale, &shift, nullptr, nullptr, nullptr};
  void* outputs[] = {y, &mean, &variance};
  std::vector<std::byte> workspace(kernel->workspace_bytes());
  kernel->launch({.inputs = inputs, .outputs = outputs, .updated = {}, .workspace = workspace.data(), .random = {}});
  EXPECT_EQ(y[0], 1.0F);
  EXPECT_EQ(y[1], 2.0F);
  EXPECT_EQ(mean, 1.0F);
  EXPECT_EQ(variance, 4.0F);
}

/// y and the gradients of x, scale and shift, with relu fused or as an operation of its own.
std::vector<HostTensor> with_relu(const HostTensor& content, bool training, DataFormat format, bool fused,
                                  const RunOptions& run) {
  const Shape& shape = content.shape();
  const Shape channels{shape[channel_axis(format)]};
  Graph graph;
  const Value x = placeholder(graph, "x", shape), dy = placeholder(graph, "dy", shape);
  std::vector<Value> parameters;
  for (const char* name : {"scale", "shift", "mean", "variance"}) {
    parameters.push_back(placeholder(graph, name, channels));
  }
  const auto normed = batch_norm(x, parameters[0], parameters[1], parameters[2], parameters[3],
                                 constant(graph, HostTensor::scalar(training)), {.relu = fused, .format = format});
  const Value y = fused ? normed.y : relu(normed.y);
  std::vector<Value> fetches = {y, normed.mean, normed.variance};
  for (Value gradient : gradients(reduce_sum(y * dy), {x, parameters[0], parameters[1]})) fetches.push_back(gradient);
  Feeds feeds;
  feeds.emplace(x, content.clone());
  const auto wave = [&](Value value, float offset, float phase) {
    HostTensor tensor(value.type());
    for (int i = 0; float& element : tensor.values<float>()) {
      element = offset + std::sin(phase + 1.7F * static_cast<float>(i++));
    }
    feeds.emplace(value, std::move(tensor));
  };
  wave(dy, 0, 2);
  wave(parameters[0], 0.3F, 3);  // some scales are negative
  wave(parameters[1], 0, 4);
  wave(parameters[2], 0, 5);
  wave(parameters[3], 1.5F, 6);
  return run_kernels(fetches, feeds, run);
}

void expect_fused_equals_composed(const HostTensor& content, DataFormat format, const std::string& what) {
  for (bool training : {true, false}) {
    const auto composed = with_relu(content, training, format, false, {});
    for (const RunOptions& run : {RunOptions{}, RunOptions{.threads = 1, .in_place = InPlaceUse::first_pairs},
                                  RunOptions{.in_place = InPlaceUse::last_pairs, .replay = true}}) {
      const auto fused = with_relu(content, training, format, true, run);
      for (std::size_t i = 0; i < fused.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(fused[i], composed[i])) << what << (training ? ", training" : "") << ", result " << i;
      }
    }
  }
}

HostTensor wavy(const Shape& shape) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) element = std::sin(0.37F * static_cast<float>(i++));
  return tensor;
}

TEST(BatchNormRelu, EqualsReluOfBatchNormBitForBit) {
  for (const Shape& shape : {Shape{5, 1}, {40, 3}, {9, 9, 16}, {33, 64}, {70, 257}, {3, 100, 300}}) {
    expect_fused_equals_composed(wavy(shape), DataFormat::nhwc, shape.text());
  }
  for (const Shape& shape : {Shape{5, 70}, {6, 5, 7}, {4, 16, 6, 6}, {2, 3, 130, 130}, {300, 2, 2, 2}}) {
    expect_fused_equals_composed(wavy(shape), DataFormat::nchw, shape.text());
  }
}

TEST(BatchNormRelu, PassesWhatIsNoNumberAsReluDoes) {
  for (float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()}) {
    HostTensor x = wavy({10, 4, 6});
    x.values<float>()[17] = special;
    for (DataFormat format : {DataFormat::nhwc, DataFormat::nchw}) {
      expect_fused_equals_composed(x, format, std::to_string(special));
    }
  }
}

TEST(BatchNormRelu, ExactZerosHaveNoGradient) {
  // Every element is the mean of its channel and the shift is 0, so that y is exactly 0.
  Graph graph;
  const Value x = placeholder(graph, "x", {6, 2}), c = placeholder(graph, "c", {2});
  const Value zero = placeholder(graph, "zero", {2}), running = placeholder(graph, "running", {2});
  const auto y = batch_norm(x, c, zero, running, running, constant(graph, HostTensor::scalar(true)), {.relu = true}).y;
  Feeds feeds;
  feeds.emplace(x, HostTensor::of<float>({6, 2}, {3, 5, 3, 5, 3, 5, 3, 5, 3, 5, 3, 5}));
  feeds.emplace(c, HostTensor::of<float>({2}, {1, -1}));
  feeds.emplace(zero, HostTensor::of<float>({2}, {0, 0}));
  feeds.emplace(running, HostTensor::of<float>({2}, {1, 1}));
  std::vector<Value> fetches = gradients(reduce_sum(y), {x, c, zero});
  fetches.push_back(y);
  for (const HostTensor& result : run_kernels(fetches, feeds)) {
    for (float value : result.values<float>()) EXPECT_EQ(value, 0.0F);
  }
}

TEST(BatchNorm, ShapesThatDoNotFitTheFormatAreRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3, 4, 5}), c = placeholder(graph, "c", {3});
  const Value yes = constant(graph, HostTensor::scalar(true));
  EXPECT_EQ(batch_norm(x, c, c, c, c, yes, kNchw).mean.type().text(), "f32[3]");
  EXPECT_THROW(batch_norm(x, c, c, c, c, yes), ShapeError);
  const Value wide = placeholder(graph, "wide", {5});
  EXPECT_THROW(batch_norm(x, wide, wide, wide, wide, yes, kNchw), ShapeError);
  EXPECT_THROW(batch_norm(c, c, c, c, c, yes, kNchw), ShapeError);
}

TEST(BatchNorm, AnEpsilonBelowZeroIsRefused) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 3}), c = placeholder(graph, "c", {3});
  const Value yes = constant(graph, HostTensor::scalar(true));
  for (float epsilon : {-1e-3F, std::nanf("")}) {
    EXPECT_THROW(batch_norm(x, c, c, c, c, yes, {.epsilon = epsilon}), ArgumentError) << epsilon;
  }
}

TEST(BatchNormGrad, OfNoRowsIsZero) {
  for (bool training : {true, false}) {
    check({.name = training ? "gradients_of_no_rows_training" : "gradients_of_no_rows_running",
           .inputs = {input({0, 3}), input({0, 3}), parameter({3}), parameter({3}), parameter({3}, 0.5, 2),
                      boolean_input(training)},
           .build =
               [](Graph&, const std::vector<Value>& in) {
                 const auto [dx, dscale, dshift] = batch_norm_grad(in[0], in[1], in[2], in[2], in[3], in[4], in[5], {});
                 return std::vector{dx, dscale, dshift};
               },
           .reference =
               [](const std::vector<Doubles>&) {
                 return std::vector<Doubles>{{}, {0, 0, 0}, {0, 0, 0}};
               },
           .gradient_outputs = {},
           .dynamic_batch = true,
           .same_bits_for_any_threads = true});
  }
}

}  // namespace
}  // namespace sectionflow::testing_support

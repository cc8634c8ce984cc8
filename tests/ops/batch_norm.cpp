#include "graph/ops/batch_norm.h"

#include <cmath>
#include <string>

#include "device/cpu_device.h"
#include "graph/ops/basic.h"
#include "kernels/kernel_registry.h"
#include "tests/support/op_case.h"

namespace sectionflow::testing_support {
namespace {

constexpr double kEpsilon = 1e-3F;

struct Moments {
  Doubles mean, variance;
};

Moments moments_of(const Doubles& x, std::size_t channels) {
  const std::size_t rows = channels == 0 ? 0 : x.size() / channels;
  Moments of{Doubles(channels), Doubles(channels)};
  if (rows == 0) return of;
  for (std::size_t i = 0; i < x.size(); ++i) of.mean[i % channels] += x[i] / static_cast<double>(rows);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double centred = x[i] - of.mean[i % channels];
    of.variance[i % channels] += centred * centred / static_cast<double>(rows);
  }
  return of;
}

// Inputs: x, scale, shift, running mean, running variance, is_training.
std::vector<Doubles> reference(const std::vector<Doubles>& in) {
  const std::size_t channels = in[1].size();
  const Moments moments = in[5][0] != 0 ? moments_of(in[0], channels) : Moments{in[3], in[4]};
  Doubles y = in[0];
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t c = i % channels;
    y[i] = (y[i] - moments.mean[c]) / std::sqrt(moments.variance[c] + kEpsilon) * in[1][c] + in[2][c];
  }
  return {y, moments.mean, moments.variance};
}

OpCase to_case(const std::string& name, CaseInput x, bool training) {
  const Shape channels{x.type.shape[-1]};
  CaseInput running_mean = parameter(channels), running_variance = parameter(channels, 0.5, 2);
  running_mean.differentiable = running_variance.differentiable = false;
  return {.name = name + (training ? "_training" : "_running"),
          .inputs = {std::move(x), parameter(channels, 0.5, 1.5), parameter(channels), running_mean, running_variance,
                     boolean_input(training)},
          .build =
              [](Graph&, const std::vector<Value>& in) {
                const auto [y, mean, variance] = batch_norm(in[0], in[1], in[2], in[3], in[4], in[5]);
                return std::vector{y, mean, variance};
              },
          .reference = reference,
          .tolerance = {.relative = 8, .absolute = 16},
          .gradient_tolerance = {.relative = 64, .absolute = 64},
          .dynamic_batch = true,
          .same_bits_for_any_threads = true};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (bool training : {true, false}) {
    for (std::int64_t channels : {1, 3, 8, 10, 16, 17, 24, 32, 63, 64, 100, 257, 300}) {
      for (std::int64_t rows : {2, 7, 500}) {
        const std::string name = "rows_" + std::to_string(rows) + "_channels_" + std::to_string(channels);
        all.push_back(to_case(name, input({rows, channels}), training));
      }
    }
    all.push_back(to_case("sequences", input({5, 6, 10}), training));
    all.push_back(to_case("images", input({7, 9, 8, 16}), training));
    all.push_back(to_case("many_blocks_of_images", input({7, 28, 28, 17}), training));
    all.push_back(to_case("many_blocks_of_one_channel", input({70000, 1}), training));
    all.push_back(to_case("one_row", input({1, 10}), training));
    all.push_back(to_case("no_rows", input({0, 10}), training));
  }
  return all;
}

class BatchNormCases : public testing::TestWithParam<OpCase> {};
TEST_P(BatchNormCases, EqualTheReferenceAndKeepTheirBits) {
  check(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Cases, BatchNormCases, testing::ValuesIn(cases()), case_name);

TEST(BatchNorm, VarianceOfValuesFarFromZeroIsAccurate) {
  // E[x^2] - E[x]^2 in f32 would lose every digit of a variance of 1/3 beside a mean of 1000.
  OpCase far = to_case("far_from_zero", input({20000, 3}, 999, 1001), true);
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

TEST(BatchNormGrad, OfNoRowsIsZero) {
  for (bool training : {true, false}) {
    check({.name = training ? "gradients_of_no_rows_training" : "gradients_of_no_rows_running",
           .inputs = {input({0, 3}), input({0, 3}), parameter({3}), parameter({3}), parameter({3}, 0.5, 2),
                      boolean_input(training)},
           .build =
               [](Graph&, const std::vector<Value>& in) {
                 const auto [dx, dscale, dshift] = batch_norm_grad(in[0], in[1], in[2], in[3], in[4], in[5], {});
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

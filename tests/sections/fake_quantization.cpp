// Training for 8 bits: exact in every strategy, with ranges that move or learn, and what layers make of it.

#include "graph/fake_quantization.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "autodiff/gradients.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

TrainingCase rounded_net(RangeKind ranges, Dtype dtype) {
  return {text_of("net for 8 bits in ", dtype_name(dtype)), [=](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            const MixedPrecision precision(graph, dtype);
            const FakeQuantization eight_bits(graph, {.ranges = ranges, .decay = 0.5F, .initial_limit = 2});
            Value x = in.images;
            for (std::int64_t block = 0; block < 2; ++block) {
              auto section = manager.new_section();
              const Value y = conv_norm_relu(x, in.is_training, 4, block == 0 ? 2 : 1);
              x = block == 0 ? y : relu(batch_norm(conv2d(y, {.features = 4}), in.is_training, {.decay = 0.9F}) + x);
            }
            const Value loss = head_section(manager, x, in.labels);
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

TEST(FakeQuantizedTraining, IsExactInEveryStrategy) {
  expect_exact(rounded_net(RangeKind::moving, Dtype::f32), {.steps = 3, .poison = true});
  expect_exact(rounded_net(RangeKind::learned, Dtype::bf16), {.steps = 3, .poison = true});
}

TEST(FakeQuantizedTraining, RangesFollowWhatLayersAreGiven) {
  Graph graph;
  const Value x = placeholder(graph, "x", {4, 2});
  Value y;
  {
    const FakeQuantization eight_bits(graph, {.decay = 0.5F, .initial_limit = 2});
    y = dense(x, {.features = 3});
  }
  EXPECT_EQ(dense(x, {.features = 3}).node().inputs()[0].node().inputs()[0], x);  // rounds nothing
  Session session(graph);
  session.initialize();
  const Value weight = graph.find("dense/input_range/weight").output();
  const Value maximum = graph.find("dense/input_range/maximum").output();
  const auto step = [&](float most) {
    const HostTensor batch = HostTensor::of<float>({4, 2}, {0, 1, 2, most, 0, 0, 0, 0});
    session.run({{x, batch}, {graph.training(), true}}, {.targets = graph.operations(kUpdateOperations)});
  };
  step(3);
  EXPECT_EQ(session.read(weight).item<float>(), 0.5F);
  EXPECT_EQ(session.read(maximum).item<float>(), 1.5F);
  step(5);
  EXPECT_EQ(session.read(maximum).item<float>() / session.read(weight).item<float>(), (0.25F * 3 + 0.5F * 5) / 0.75F);
}

TEST(FakeQuantizedTraining, LimitsBelowZeroCountByTheirMagnitudeAndLearn) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 2});
  Value y;
  {
    const FakeQuantization eight_bits(graph, {.ranges = RangeKind::learned});
    y = dense(x, {.features = 3});
  }
  const Value limit = graph.find("dense/input_range/limit").output();
  const std::vector<Value> found = {y, gradients(reduce_sum(y), {limit})[0]};
  Session session(graph);
  session.initialize();
  session.write(graph.find("dense/input_range/weight").output(), HostTensor::scalar(1.0F));
  for (const float least : {-1.0F, 0.0F}) {  // of what has been seen: rounded with a sign, and without
    session.write(graph.find("dense/input_range/minimum").output(), HostTensor::scalar(least));
    const auto at = [&](float value) {
      session.write(limit, HostTensor::scalar(value));
      return session.run(found, {{x, HostTensor::of<float>({2, 2}, {-1, 0.3F, 0.7F, 5})}});
    };
    const auto above = at(2), below = at(-2);
    EXPECT_TRUE(std::ranges::equal(above[0].values<float>(), below[0].values<float>())) << least;
    EXPECT_NE(above[1].item<float>(), 0) << least;
    EXPECT_EQ(above[1].item<float>(), -below[1].item<float>()) << least;
  }
}

TEST(FakeQuantizedTraining, RefusesOptionsThatAreNone) {
  Graph graph;
  EXPECT_THROW((void)FakeQuantization(graph, {.decay = 2}), ArgumentError);
  EXPECT_THROW((void)FakeQuantization(graph, {.initial_limit = 0}), ArgumentError);
  EXPECT_THROW((void)FakeQuantization(graph, {.ranges = static_cast<RangeKind>(5)}), ArgumentError);
  EXPECT_EQ(graph.layer_rounding(), nullptr);
}

}  // namespace
}  // namespace sectionflow::testing

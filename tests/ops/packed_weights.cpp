#include "graph/ops/packed_weights.h"

#include <gtest/gtest.h>

#include <string>

#include "autodiff/gradients.h"
#include "device/device.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/kernel_registry.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/support/temporary_folder.h"

namespace sectionflow::testing_support {
namespace {

ConvolutionOptions steps_of(std::int64_t stride) {
  return {.steps = window_steps<2>(stride, 1, Padding::same, DataFormat::nhwc)};
}

TEST(PackedWeights, RefuseWhatDoesNotFitAndGradients) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 6, 6, 4}), w = placeholder(graph, "w", {288});
  const TensorType plain_w{Dtype::f32, {3, 3, 4, 8}};
  const PackedWeightsOptions options{
      .op = "conv2d", .options = steps_of(1), .input = 1, .types = {x.type(), plain_w}, .order = "another"};
  const Value y = with_packed_weights({x, w}, options);
  EXPECT_EQ(y.type().text(), "f32[2,6,6,8]");
  const auto refusal = [&](const auto& change) {
    PackedWeightsOptions changed = options;
    change(changed);
    return error_text<ArgumentError>([&] { with_packed_weights({x, w}, changed); });
  };
  const auto expect_refused = [](const std::string& text, const char* why) {
    EXPECT_TRUE(contains(text, why)) << text;
  };
  expect_refused(refusal([](auto& o) { o.op = "dropout"; }), "does nothing else");
  expect_refused(refusal([](auto& o) { o.op = "with_packed_weights"; }), "does nothing else");
  expect_refused(refusal([](auto& o) { o.options = 1; }), "options of another type");
  expect_refused(refusal([](auto& o) { o.input = 2; }), "the packed input");
  expect_refused(refusal([](auto& o) { o.types.push_back(o.types[0]); }), "got 3 types");
  expect_refused(refusal([](auto& o) { o.types[0].shape = {kDynamic, 6, 6, 4}; }), "shapes that are known");
  EXPECT_THROW(with_packed_weights({x, x}, options), ShapeError);
  expect_refused(error_text<ArgumentError>([&] { gradients(reduce_sum(y), {x}); }), "packed for inference");
  const auto device = make_device(cpu(), 1);
  const KernelRequest request{.node = y.node(),
                              .inputs = {x.type(), w.type()},
                              .outputs = {y.type()},
                              .host_booleans = {{}, {}},
                              .device = *device};
  const auto in_team = device->enter();
  expect_refused(error_text<ArgumentError>([&] { kernel_registry(DeviceKind::cpu).make(request); }), "'another'");
}

TEST(PackedWeights, AreRefusedByGpus) {
  Graph graph;
  const Value x = placeholder(graph, "x", {2, 6, 6, 4}), w = placeholder(graph, "w", {288});
  const Value y = with_packed_weights(
      {x, w}, {.op = "conv2d", .options = steps_of(1), .input = 1, .types = {x.type(), {Dtype::f32, {3, 3, 4, 8}}}});
  const auto device = make_emulated_device({.seed = 1});
  const KernelRequest request{.node = y.node(),
                              .inputs = {x.type(), w.type()},
                              .outputs = {y.type()},
                              .host_booleans = {{}, {}},
                              .device = *device};
  const std::string text = error_text<ArgumentError>([&] { cuda_kernels().make(request); });
  EXPECT_TRUE(contains(text, "before the transform pack_weights")) << text;
}

}  // namespace
}  // namespace sectionflow::testing_support

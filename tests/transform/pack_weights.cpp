// Weights in the order of kernels: the same bits in every batch, no second copy, and what refuses them.

#include <gmock/gmock.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "device/instruction_set.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/matmul.h"
#include "graph/nodes/window.h"
#include "graph/ops/convolution.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/unary.h"
#include "sectionflow.h"
#include "tests/support/temporary_folder.h"
#include "tests/transform/frozen_case.h"

namespace sectionflow {
namespace {

using testing::HasSubstr;
using testing_support::count_of;

HostTensor numbers(const Shape& shape, std::uint64_t seed) {
  HostTensor tensor(Dtype::f32, shape);
  std::mt19937_64 random(seed);
  for (float& each : tensor.values<float>()) each = static_cast<float>(random() % 2048) / 1024 - 1;
  return tensor;
}

/// An operation of an image or a matrix x [?, ...] and constants.
struct PackedCase {
  std::string name;
  Shape x, w;
  Value (*build)(Value x, Value w);
};

ConvolutionOptions steps_of(std::int64_t stride) {
  return {.steps = window_steps<2>(stride, 1, Padding::same, DataFormat::nhwc)};
}

Value fused(Value x, Value w) {
  const Value b = constant(x.graph(), numbers({w.shape()[-1]}, 7));
  return fused_convolution(x, w, b, {}, {.convolution = steps_of(2), .relu = true});
}

std::vector<PackedCase> packed_cases() {
  return {
      {"conv2d", {kDynamic, 7, 6, 24}, {3, 3, 24, 40}, [](Value x, Value w) { return conv2d(x, w); }},
      {"fused", {kDynamic, 9, 9, 3}, {7, 7, 3, 24}, fused},
      {"depthwise", {kDynamic, 7, 6, 40}, {3, 3, 1, 40}, [](Value x, Value w) { return conv2d(x, w, {.groups = 40}); }},
      {"bf16",
       {kDynamic, 6, 6, 32},
       {1, 1, 32, 64},
       [](Value x, Value w) { return cast(conv2d(cast(x, Dtype::bf16), cast(w, Dtype::bf16)), Dtype::f32); }},
      {"conv3d", {kDynamic, 3, 4, 5, 16}, {3, 3, 3, 16, 16}, [](Value x, Value w) { return conv3d(x, w); }},
      {"matmul", {kDynamic, 70}, {70, 800}, [](Value x, Value w) { return matmul(x, w); }},
      {"add_matmul", {kDynamic, 800}, {16, 800}, [](Value x, Value w) {
         return add_matmul(x, slice(x, {{0, 0}, {-1, 16}}), w);
       }}};
}

class PackedWeightsCases : public testing::TestWithParam<PackedCase> {};

TEST_P(PackedWeightsCases, GiveTheSameBitsInEveryBatch) {
  const PackedCase& it = GetParam();
  Graph graph;
  const Value x = placeholder(graph, "x", it.x), y = it.build(x, constant(graph, numbers(it.w, 1)));
  const bool is_product = it.x.rank() == 2;
  // As many rows as a product wants before it brings its weights into an order of its own.
  const std::int64_t batch = is_product ? 160 : 2;
  const InferenceGraph plain = transform_graph(graph, {y}, "fold_constants");
  const InferenceGraph packed = transform_graph(plain, text_of("pack_weights(batch=", batch, ", threads=2)"));
  const int count = count_of(*packed.graph, "with_packed_weights");
  // On machines with less some run by loops, which read weights as they lie.
  if (instruction_set() >= InstructionSet::avx512 && (it.name != "bf16" || multiplies_bf16())) {
    EXPECT_EQ(count, 1);
  }
  for (const std::int64_t rows : {batch, batch + 1, std::int64_t{1}, std::int64_t{0}}) {
    std::vector<std::int64_t> dims = it.x.dims();
    dims[0] = rows;
    const HostTensor fed = numbers(Shape(dims), 2);
    const auto of = [&](const InferenceGraph& each) {
      Session session(*each.graph, {.threads = 2, .poison = true, .check_schedules = true});
      session.initialize();
      return std::move(session.run(each.outputs, {{each["x"], fed}}).front());
    };
    EXPECT_EQ(first_difference(of(packed), of(plain)), "") << rows << " rows";
  }
}
INSTANTIATE_TEST_SUITE_P(Cases, PackedWeightsCases, testing::ValuesIn(packed_cases()),
                         [](const auto& each) { return each.param.name; });

TEST(PackWeights, HasTheSessionHoldThemInOneOrderAlone) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 16});
  const Value w = constant(graph, HostTensor(Dtype::f32, {3, 3, 16, 32}), "w");
  const Value y = relu(conv2d(x, w));
  const InferenceGraph made = transform_graph(graph, {y}, "fuse pack_weights(threads=1)");
  EXPECT_EQ(count_of(*made.graph, "with_packed_weights"), 1);
  EXPECT_EQ(count_of(*made.graph, "stored_constant"), 1);
  EXPECT_EQ(made["w"].type().text(), "f32[4608]");
  EXPECT_EQ(made.outputs[0].name(), y.name());
  const TensorType fed{Dtype::f32, {1, 6, 6, 16}};
  const auto scratch_of = [&](const InferenceGraph& each) {
    return Session(*each.graph, {.threads = 1}).plan(each.outputs, {{each["x"], fed}}).planned_peak_bytes;
  };
  EXPECT_LE(scratch_of(made) + 4608 * sizeof(float), scratch_of(transform_graph(graph, {y}, "fuse")));
}

TEST(PackWeights, LeavesWhatOthersReadTooAndOutputs) {
  Graph graph;
  const Value x = placeholder(graph, "x", {kDynamic, 6, 6, 16});
  const Value w = constant(graph, HostTensor(Dtype::f32, {3, 3, 16, 16}));
  const Value y = conv2d(x, w);
  EXPECT_EQ(count_of(*transform_graph(graph, {y}, "pack_weights").graph, "with_packed_weights"), 1);
  EXPECT_EQ(count_of(*transform_graph(graph, {y, w}, "pack_weights").graph, "with_packed_weights"), 0);
  EXPECT_EQ(count_of(*transform_graph(graph, {conv2d(y, w)}, "pack_weights").graph, "with_packed_weights"), 0);
}

TEST(PackWeights, AreRefusedByFilesAndForShapesThatAreOpen) {
  Graph graph;
  const Value y = relu(placeholder(graph, "x", {kDynamic, kDynamic}));
  const auto refusal = [&](const std::string& text) {
    return error_text<ArgumentError>([&] { transform_graph(graph, {y}, text); });
  };
  EXPECT_THAT(refusal("pack_weights"), HasSubstr("the placeholder 'x' is f32[?,?]"));
  EXPECT_THAT(refusal("pack_weights(batch=0)"), HasSubstr("batch is 0"));
  EXPECT_THAT(refusal("pack_weights(batch=99999999999)"), HasSubstr("wanted at most"));
  Graph known;
  const Value image = placeholder(known, "x", {kDynamic, 6, 6, 16});
  const Value made_of = conv2d(image, constant(known, HostTensor(Dtype::f32, {3, 3, 16, 16})));
  const InferenceGraph made = transform_graph(known, {made_of}, "pack_weights");
  const TemporaryFolder folder;
  const std::string text =
      error_text<ArgumentError>([&] { save_inference_graph(made, folder.path() / "packed.safetensors"); });
  EXPECT_THAT(text, HasSubstr("the weights of 'conv2d' are packed for this machine"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "packed.safetensors"));
}

}  // namespace
}  // namespace sectionflow

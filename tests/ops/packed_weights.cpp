#include "graph/ops/packed_weights.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "autodiff/gradients.h"
#include "device/instruction_set.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/matmul.h"
#include "graph/nodes/window.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/matmul.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "kernels/cuda/cuda_kernels.h"
#include "runtime/session.h"
#include "tests/support/contains.h"
#include "tests/support/emulated_device.h"
#include "tests/support/temporary_folder.h"
#include "transform/transform_graph.h"

namespace sectionflow::testing_support {
namespace {

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
      {"add_matmul", {kDynamic, 768}, {768, 768}, [](Value x, Value w) { return add_matmul(x, x, w); }}};
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
  int count = 0;
  for (NodeId id = 0; id < packed.graph->num_nodes(); ++id) {
    count += packed.graph->node(id).op().name == "with_packed_weights" ? 1 : 0;
  }
  if (is_product ? instruction_set() >= InstructionSet::avx512 : it.name != "bf16" || multiplies_bf16()) {
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
  expect_refused(refusal([](auto& o) { o.types.pop_back(); }), "types");
  expect_refused(refusal([](auto& o) { o.types[0].shape = {kDynamic, 6, 6, 4}; }), "shapes that are known");
  EXPECT_THROW(with_packed_weights({x, x}, options), ShapeError);
  expect_refused(error_text<ArgumentError>([&] { gradients(reduce_sum(y), {x}); }), "packed for inference");
  Session session(graph);
  session.initialize();
  expect_refused(error_text<ArgumentError>([&] { session.plan({y}, {{x, x.shape()}, {w, w.shape()}}); }), "'another'");
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

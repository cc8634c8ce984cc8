// A program of its own: it replaces operator new. Planning makes kernels, under budgets that may be smaller than the
// tensors: what a kernel allocates when it is made does not grow with them.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "autodiff/custom_gradient.h"
#include "autodiff/optimizers.h"
#include "autodiff/updates.h"
#include "base/bytes.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/indexing.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/matmul.h"
#include "graph/nodes/pool.h"
#include "graph/nodes/shards.h"
#include "graph/nodes/update.h"
#include "graph/op_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/control.h"
#include "graph/ops/convolution.h"
#include "graph/ops/ctc_loss.h"
#include "graph/ops/dropout.h"
#include "graph/ops/fake_quantize.h"
#include "graph/ops/fused_convolution.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/identities.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/layout.h"
#include "graph/ops/lstm_step.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/quantize.h"
#include "graph/ops/quantized_convolution.h"
#include "graph/ops/random.h"
#include "graph/ops/ranking.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/scan.h"
#include "graph/ops/scatter.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "kernels/kernel_registry.h"
#include "tests/support/elementwise_values.h"
#include "tests/support/replaced_new.h"

namespace {

/// Bytes of operator new that are in use, counted while a kernel is made; and the most of them.
std::atomic<bool> is_counting = false;
std::atomic<long> bytes_in_use = 0, most_bytes = 0;

}  // namespace

#ifndef SF_NO_ALLOCATION_HOOK

namespace sectionflow::testing_support {

void* replaced_new(std::size_t num_bytes, std::size_t alignment) noexcept {
  void* bytes = alignment == 0 ? std::malloc(num_bytes) : memalign(alignment, num_bytes);
  if (is_counting && bytes != nullptr) {
    const long now = bytes_in_use += static_cast<long>(malloc_usable_size(bytes));
    most_bytes = std::max<long>(most_bytes, now);
  }
  return bytes;
}
void replaced_delete(void* bytes) noexcept {
  if (is_counting && bytes != nullptr) bytes_in_use -= static_cast<long>(malloc_usable_size(bytes));
  std::free(bytes);
}

}  // namespace sectionflow::testing_support

#endif

namespace sectionflow {
namespace {

using testing_support::elementwise_values;

/// The loss of `values`, differentiated by `inputs`.
void add_gradients(const std::vector<Value>& values, const std::vector<Value>& inputs) {
  std::vector<Value> sums;
  for (const Value& value : values) sums.push_back(reduce_sum(value));
  (void)gradients(add_n(sums), inputs);
}

void add_elementwise(Graph& graph) {
  constexpr std::int64_t kSide = 1 << 13;  // 256 MiB
  const Value x = placeholder(graph, "x", {kSide, kSide}), y = placeholder(graph, "y", {kSide, kSide});
  const Value is_training = constant(graph, HostTensor::scalar(true));
  const Value row = placeholder(graph, "row", {kSide});
  std::vector<Value> values = elementwise_values(x, y);
  for (const Value& value : {x * row, dropout(x, is_training), bias_add(x, row), select(less(x, y), x, y),
                             broadcast_to(reduce_max(x, {{1}, true}), {kSide, kSide}), layer_norm(x, row, row),
                             fake_quantize(x, row, row), rms_norm(x, row), group_norm(x, row, row, {.groups = 4}),
                             reduce_mean(x, {{0}}), reduce_mean(x, {{1}}), transpose(x, {1, 0}), matmul(x, y),
                             cond(
                                 is_training, [&] { return x * y; }, [&] { return x; }),
                             cond(
                                 is_training, [&] { return square(x); }, [&] { return square(y); }),
                             assert_that(x, less(x, y))}) {
    values.push_back(value);
  }
  add_gradients(values, {x, y, row});
  for (const Value& compared :
       {equal(x, y), not_equal(x, y), x <= y, x > y, x >= y, is_finite(sign(x)), logical_not(x < y),
        logical_and(x<y, x> y), logical_or(x<y, x> y), logical_xor(x<y, x> y)}) {
    (void)cast(compared, Dtype::i32);
  }
  (void)one_hot(argmax(x), {.depth = kSide});
  const Value norm = global_norm({x, y});
  (void)clip_scale(norm, 5);
  (void)gradients(norm, {x});
  (void)swap_in(swap_out(x));
  (void)stop_gradient(x);
  (void)custom_gradient(
      {x}, [](const auto& in) { return in[0] * 2.0F; }, [](const auto& r) { return std::vector{r.dy}; });
  (void)broadcast_like(row, x);
  (void)same_size(x, y, {});
  (void)accumulate(x, cast(y, Dtype::bf16), Dtype::f32);
  (void)random_normal(graph, {kSide, kSide});
  (void)truncated_normal(graph, {kSide, kSide});
  (void)random_uniform(graph, {kSide, kSide});
  (void)random_gumbel_like(x);
  (void)categorical(x, {.draws = kSide});
}

void add_shapes(Graph& graph) {
  const Value x = placeholder(graph, "z", {1 << 10, 1 << 8, 1 << 8});
  const Value table = placeholder(graph, "table", {1 << 20, 64});
  const Value indices = placeholder(graph, "indices", {1 << 20}, Dtype::i32);
  const Value long_row = placeholder(graph, "long_row", {1 << 26, 1});
  const Value weights = placeholder(graph, "weights", {1 << 8, 1 << 8});
  const Value labels = placeholder(graph, "labels", {1 << 20}, Dtype::i32);
  const Value letters = placeholder(graph, "letters", {1 << 10, 1 << 6}, Dtype::i32);
  const Value letter_counts = placeholder(graph, "letter_counts", {1 << 10}, Dtype::i32);
  add_gradients({reshape(x, {1 << 12, -1}),
                 flatten(x),
                 transpose(x, {2, 0, 1}),
                 slice(x, {{0, 1, 2}, {-1, -1, 128}}),
                 pad(x, {{0, 1, 0}, {2, 0, 0}}),
                 concat({x, x}, -1),
                 stack({x, x, x}, 1),
                 split(x, 2, 1)[1],
                 gather(table, indices),
                 gather_present(table, indices),
                 gather_grad(gather(table, indices), indices, table),
                 scatter_add(table, indices, table),
                 scatter_max(table, indices, table),
                 cumsum(x, 1),
                 cumsum(long_row, 0),
                 top_k(x, 200).values,
                 take_along(table, top_k(table, 9).indices),
                 transpose(long_row, {1, 0}),
                 softmax_cross_entropy(table, labels),
                 ctc_loss(x, letters, letter_counts, letter_counts),
                 softmax(long_row),
                 matmul(x, weights),
                 add_matmul(x, x, weights),
                 lstm_step(x, slice(x, {{0, 0, 0}, {-1, -1, 64}})).output},
                {x, table, long_row, weights});
}

void add_images(Graph& graph) {
  const Value is_training = constant(graph, HostTensor::scalar(true));
  const Value images = placeholder(graph, "images", {16, 512, 512, 16});  // 256 MiB
  const Value volumes = placeholder(graph, "volumes", {2, 128, 128, 128, 16});
  const Value w = placeholder(graph, "kernel2", {3, 3, 16, 16}), w3 = placeholder(graph, "kernel3", {3, 3, 3, 16, 16});
  const Value wide = placeholder(graph, "wide", {1, 1, 1 << 24, 1});  // tables of an axis are as large as the image
  const Value channels = variable("mean", fill(graph, {16}, 0)), more = variable("variance", fill(graph, {16}, 1));
  std::vector<Value> values = {max_pool2d(images),
                               average_pool2d(images),
                               conv2d(images, w),
                               conv_transpose2d(images, w, {.stride = 2}),
                               max_pool3d(volumes),
                               average_pool3d(volumes),
                               conv3d(volumes, w3),
                               conv_transpose3d(volumes, w3),
                               batch_norm(images, more, channels, channels, more, is_training).y};
  const WindowSteps flat = window_steps<2>(1, 1, Padding::same, DataFormat::nhwc);
  const WindowSteps deep = window_steps<3>(1, 1, Padding3d::same, DataFormat::nhwc);
  (void)fused_convolution(images, w, channels, images, {.convolution = {.steps = flat}, .relu = true});
  (void)fused_convolution(volumes, w3, channels, {}, {.convolution = {.steps = deep}});
  const Value integers = quantize(images, channels), integer_volumes = quantize(volumes, channels);
  const Value w8 = placeholder(graph, "w8", {3, 3, 16, 16}, Dtype::i8);
  (void)dequantize(integers, channels);
  (void)quantized_add(integers, integers, {});
  (void)quantized_convolution(integers, w8, channels, channels, integers, {.convolution = {.steps = flat}});
  (void)quantized_convolution(integer_volumes, placeholder(graph, "v8", {3, 3, 3, 16, 16}, Dtype::i8), channels,
                              channels, {}, {.convolution = {.steps = deep}});
  (void)quantized_matmul(integers, placeholder(graph, "m8", {16, 16}, Dtype::i8), channels, channels);
  for (const std::string kind : {"quantized_max_pool", "quantized_average_pool"}) {
    (void)quantized_pool(integers, kind, {.window = {2, 2}, .steps = flat});
    (void)quantized_pool(integer_volumes, kind, {.window = {2, 2, 2}, .steps = deep});
  }
  for (const ResizeMethod method : {ResizeMethod::nearest, ResizeMethod::bilinear}) {
    values.push_back(resize2d(images, {.height = 300, .width = 700, .method = method}));
    values.push_back(resize2d(wide, {.height = 2, .width = 1 << 25, .method = method}));
  }
  // Many short heads, and one of long rows.
  const Value heads = placeholder(graph, "heads", {1 << 18, 16, 2, 8}),
              rows = placeholder(graph, "rows", {1, 2, 1 << 20, 32});
  values.push_back(attention(heads, heads * 2.0F, heads, {.causal = true}));
  values.push_back(attention(rows, rows * 2.0F, rows, {.causal = true}));
  const Value one_head = placeholder(graph, "one_head", {1 << 18, 1, 2, 8}),
              lengths = placeholder(graph, "lengths", {1 << 18}, Dtype::i32);
  values.push_back(attention(heads, one_head, one_head * 2.0F,
                             {.window = 1, .key_lengths = lengths, .dropout = 0.5F, .is_training = is_training}));
  values.push_back(attention(rows, rows * 2.0F, rows, {.causal = true, .window = 300}));
  add_gradients(values, {images, volumes, w, w3, wide, heads, rows});
}

void add_updates(Graph& graph) {
  const Value w = variable("w", fill(graph, {1 << 13, 1 << 13}, 0));
  const Value x = placeholder(graph, "averaged", {1 << 13, 1 << 13});
  (void)update_moving_average(w, x, constant(graph, HostTensor::scalar(true)), 0.9F);
  (void)all_reduced(x, 2);
  (void)all_gathered(x, 2);
  (void)of_last_rank(x, 2);
  (void)shard_variable(variable("held_in_shards", fill(graph, {1 << 13, 1 << 13}, 0)), {2});
  const Value copy = variable("copy", fill(graph, {1 << 13, 1 << 13}, 0)), master = master_of_copies(copy, {2});
  (void)norm_of_shards({reduced_shard(master, x)}, {1 << 26}, {2});
  (void)refresh_copy(copy, master, {});
  const Value loss = reduce_sum(square(w));
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Adam{}), Optimizer(AdamW{}), Optimizer(Adagrad{}), Optimizer(RmsProp{}),
        Optimizer(Momentum{}), Optimizer(Lion{}), Optimizer(Lamb{}), Optimizer(Adafactor{}),
        Optimizer(Adam{.slots = SlotStorage::eight_bit}), Optimizer(AdamW{.slots = SlotStorage::eight_bit})}) {
    (void)minimize(optimizer, loss, {w});
  }
  const Value row = variable("row", fill(graph, {1 << 26}, 0));
  (void)minimize(Adafactor{}, reduce_sum(square(row)), {row});
  (void)training_updates(Sgd{}, loss, {.micro_batches = 2, .average = WeightAverageOptions{}}, {w});
}

class KernelSizes : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SF_NO_ALLOCATION_HOOK
    GTEST_SKIP() << "a sanitizer owns the allocation functions, or this is no glibc";
#endif
  }

  /// The most that is allocated while the node's kernel is made, and when it is there.
  long bytes_of(Node& node, Device& device) {
    KernelRequest request{.node = node, .inputs = {}, .outputs = {}, .host_booleans = {}, .device = device};
    for (const Value& input : node.inputs()) {
      request.inputs.push_back(input.type());
      const HostTensor* content = constant_content(input);
      const bool is_boolean = content != nullptr && content->type() == TensorType{Dtype::boolean, {}};
      request.host_booleans.push_back(is_boolean ? std::optional<bool>(content->item<bool>()) : std::nullopt);
    }
    request.outputs = node.output_types();
    bytes_in_use = most_bytes = 0;
    is_counting = true;
    const auto kernel = kernel_registry(device.kind()).make(request);
    is_counting = false;
    return most_bytes;
  }
};

TEST_F(KernelSizes, WhatAKernelAllocatesWhenItIsMadeDoesNotGrowWithItsTensors) {
  constexpr long kMost = 2 << 20;  // what a library's descriptions take; the tensors have 64 MiB and more
  Graph graph;
  add_elementwise(graph);
  add_shapes(graph);
  add_images(graph);
  add_updates(graph);
  const auto device = make_device(cpu(), 2);
  std::set<std::string> covered;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (!kernel_registry(device->kind()).has(node.op().name)) continue;
    covered.insert(node.op().name);
    EXPECT_LE(bytes_of(node, *device), kMost) << node.label();
  }
  std::string missing;
  for (const auto& [name, op] : op_registry().all()) {
    // What makes a tensor of its options, or prints one, and what has the kernel of another operation.
    static const std::set<std::string> small = {"print", "constant", "with_packed_weights"};
    if (kernel_registry(device->kind()).has(name) && !covered.contains(name) && !small.contains(name))
      missing += name + " ";
  }
  EXPECT_EQ(missing, "") << "add these operations, on large tensors, to the graph of this test";
}

TEST_F(KernelSizes, TheCountSeesWhatIsAllocated) {
  bytes_in_use = most_bytes = 0;
  is_counting = true;
  { const std::vector<char> bytes(1 << 20); }
  is_counting = false;
  EXPECT_GE(most_bytes, 1 << 20);
  EXPECT_EQ(bytes_in_use, 0);
}

}  // namespace
}  // namespace sectionflow

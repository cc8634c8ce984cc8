// Networks in bf16 with f32 variables: exact in every strategy, half the activations, and they learn.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "examples/models/gpt.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

Value residual_block(Value x, Value is_training, std::int64_t filters, std::int64_t stride) {
  const Value straight = conv_norm_relu(x, is_training, filters, stride);
  const Value y = batch_norm(conv2d(straight, {.features = filters}), is_training, {.decay = 0.9F});
  const Value shortcut = conv2d(x, {.features = filters, .kernel = {1, 1}, .stride = {stride, stride}});
  return relu(y + shortcut);
}

/// Residual blocks, a section each, with pools and dropout between them.
TrainingCase residual_net(Dtype dtype) {
  return {text_of("residual net in ", dtype_name(dtype)), [dtype](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            const MixedPrecision precision(graph, dtype);
            Value x = in.images;
            for (std::int64_t block = 0; block < 3; ++block) {
              auto section = manager.new_section();
              x = residual_block(x, in.is_training, 4 + 4 * block, block == 1 ? 2 : 1);
              if (block == 0) x = max_pool2d(x, {.window = {3, 3}, .stride = {1, 1}, .padding = Padding::same});
              if (block == 1) x = dropout(x, in.is_training, {.rate = 0.2F});
            }
            const Value loss = head_section(manager, x, in.labels);
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

constexpr std::int64_t kBf16Sequence = 8;
constexpr int kBf16Vocabulary = 17;

/// A small decoder, each block a section.
TrainingCase decoder() {
  return {"decoder in bf16", [](Graph& graph, GraphSectionManager& manager) {
            const Gpt net = build_gpt(graph, manager,
                                      {.layers = 2,
                                       .width = 12,
                                       .heads = 3,
                                       .sequence = kBf16Sequence,
                                       .vocabulary = kBf16Vocabulary,
                                       .dropout = 0.1F,
                                       .cut = Cut::blocks,
                                       .optimizer = Adam{.learning_rate = 3e-3F},
                                       .precision = Dtype::bf16});
            return TrainingNet{net.loss, [net](std::int64_t step, FeedStore& store) {
                                 store.reserve(2);
                                 for (std::uint64_t seed : {3, 4}) {
                                   HostTensor tokens(Dtype::i32, {4, kBf16Sequence});
                                   const HostTensor drawn =
                                       random_classes(4 * kBf16Sequence, kBf16Vocabulary, seed, step);
                                   std::copy(drawn.bytes(), drawn.bytes() + drawn.num_bytes(), tokens.bytes());
                                   store.push_back(std::move(tokens));
                                 }
                                 return Feeds{{net.tokens, store[0]}, {net.targets, store[1]}, {net.is_training, true}};
                               }};
          }};
}

TEST(MixedPrecisionTraining, AResidualNetIsExactInEveryStrategy) {
  for (int threads : {1, 2}) expect_exact(residual_net(Dtype::bf16), {.steps = 3, .threads = threads, .poison = true});
}

TEST(MixedPrecisionTraining, ADecoderIsExactInEveryStrategy) {
  expect_exact(decoder(), {.steps = 4});
}

/// The planned peak of a training step of the whole graph, less what persists.
std::size_t transient_peak(Dtype dtype) {
  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 16, 16, 8});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  GraphSectionManager manager(graph);
  Value loss;
  {
    const MixedPrecision precision(graph, dtype);
    auto section = manager.new_section();
    Value x = images;
    for (int layer = 0; layer < 16; ++layer) x = conv_norm_relu(x, is_training, 8);
    loss = head_loss(x, labels);
  }
  finish(manager, loss);
  Session session(graph, {.threads = 1});
  const FeedTypes types{{images, Shape{32, 16, 16, 8}}, {labels, Shape{32}}, {is_training, true}};
  return session.plan({loss}, types, {.targets = manager.training_operations()}).planned_peak_bytes;
}

TEST(MixedPrecisionTraining, ActivationsTakeAboutHalfTheMemory) {
  const auto full = static_cast<double>(transient_peak(Dtype::f32));
  const auto mixed = static_cast<double>(transient_peak(Dtype::bf16));
  // Three activations a layer are kept; a few f32 copies of one layer come on top at a time.
  EXPECT_LT(mixed, 0.65 * full);
  EXPECT_GT(mixed, 0.4 * full);
}

TEST(MixedPrecisionTraining, LearnsAsInFullPrecision) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const TrainingCase same_batch{
        text_of("in ", dtype_name(dtype)), [dtype](Graph& graph, GraphSectionManager& manager) {
          TrainingNet net = residual_net(dtype).build(graph, manager);
          net.feeds = [feeds = net.feeds](std::int64_t, FeedStore& store) { return feeds(0, store); };
          return net;
        }};
    const TrainingState state = train(same_batch, How::sections, {.steps = 30});
    const float first = state.losses.front().item<float>(), last = state.losses.back().item<float>();
    EXPECT_NEAR(first, std::log(5.0F), 1.0F) << same_batch.name;
    EXPECT_LT(last, first / 3) << same_batch.name;
  }
}

}  // namespace
}  // namespace sectionflow::testing

// Networks of the kinds that people train give the same bytes by sections as by the whole graph.

#include <gtest/gtest.h>

#include "graph/ops/arithmetic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/random.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"
#include "tests/sections/image_nets.h"

namespace sectionflow::testing {
namespace {

// ---- Skip connections.

/// Twice the height and the width, by a convolution to four times the channels, which then change places with pixels.
/// Source: Shi et al. 2016, the sub-pixel convolution.
Value upsampled(Value x, std::int64_t filters) {
  const std::int64_t height = x.shape()[1], width = x.shape()[2];
  const Value packed = conv2d(x, {.features = 4 * filters, .kernel = {1, 1}});
  const Value parts = reshape(packed, {-1, height, width, 2, 2, filters});
  return reshape(transpose(parts, {0, 1, 3, 2, 4, 5}), {-1, 2 * height, 2 * width, filters});
}

/// Two steps down, two steps up, by a transposed convolution and by one with many channels, each step up in a section
/// of its own that reads a tensor of three or four sections before.
TrainingCase unet() {
  return {"unet", [](Graph& graph, GraphSectionManager& manager) {
            const Inputs in(graph);
            const Value noisy = in.images + random_normal(graph, {8, 8, 3}, {.stddev = 0.1F});
            std::vector<Value> down;
            Value x = noisy;
            for (std::int64_t level = 0; level < 3; ++level) {
              auto section = manager.new_section();
              if (level > 0) x = max_pool2d(x);
              x = conv_norm_relu(x, in.is_training, 4 + 2 * level);
              down.push_back(x);
            }
            for (std::size_t level = 2; level-- > 0;) {
              auto section = manager.new_section();
              const std::int64_t filters = down[level].shape()[3];
              const Value wider =
                  level == 1 ? conv_transpose2d(x, {.features = filters, .stride = {2, 2}}) : upsampled(x, filters);
              x = conv_norm_relu(concat({wider, down[level]}, -1), in.is_training, filters);
            }
            Value loss;
            {
              auto section = manager.new_section();
              loss = mean(square(conv2d(x, {.features = 3, .kernel = {1, 1}, .bias = true}) - in.images));
            }
            finish(manager, loss);
            return TrainingNet{loss, in.feeds()};
          }};
}

TEST(ExactNetworks, UnetWhoseStepsUpReadTheStepsDownOfFarSections) {
  for (int threads : {1, 2}) expect_exact(unet(), {.threads = threads});
}

TEST(ExactNetworks, DenseConnectionsFromEverySectionToEveryLaterOne) {
  expect_exact({"dense connections", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  std::vector<Value> all = {in.images};
                  for (int i = 0; i < 4; ++i) {
                    auto section = manager.new_section();
                    const Value x = all.size() == 1 ? all[0] : concat(all, -1);
                    all.push_back(conv_norm_relu(x, in.is_training, 3));
                  }
                  const Value loss = head_section(manager, concat(all, -1), in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

// ---- Tied embeddings.

constexpr std::int64_t kVocabulary = 11, kWidth = 6, kLength = 5;

/// Feeds of tokens and of the tokens that come next.
struct Tokens {
  explicit Tokens(Graph& graph)
      : tokens(placeholder(graph, "tokens", {kDynamic, kLength}, Dtype::i32)),
        next(placeholder(graph, "next", {kDynamic}, Dtype::i32)),
        is_training(placeholder(graph, "is_training", {}, Dtype::boolean)) {}

  std::function<Feeds(std::int64_t, FeedStore&)> feeds(bool training = true) const {
    return [in = *this, training](std::int64_t step, FeedStore& store) {
      const std::int64_t batch = step % 5 == 4 ? 1 : 3;
      HostTensor tokens(Dtype::i32, {batch, kLength});
      const HostTensor drawn = random_classes(batch * kLength, kVocabulary, 21, step);
      std::copy_n(drawn.bytes(), drawn.num_bytes(), tokens.bytes());
      store.reserve(2);
      store.push_back(std::move(tokens));
      store.push_back(random_classes(batch * kLength, kVocabulary, 22, step));
      return Feeds{{in.tokens, store[0]}, {in.next, store[1]}, {in.is_training, training}};
    };
  }

  Value tokens, next, is_training;
};

/// One head of attention, then a perceptron, each around a skip connection and with dropout.
Value transformer_block(Value x, const Tokens& in) {
  const auto to_rows = [](Value y) { return reshape(y, {-1, kWidth}); };
  const auto to_places = [](Value y) { return reshape(y, {-1, kLength, kWidth}); };
  const auto projected = [&](Value y) { return to_places(dense(to_rows(y), {.features = kWidth, .bias = false})); };
  Value y = layer_norm(x);
  const Value weights = softmax(matmul(projected(y), projected(y), {.transpose_b = true}) * 0.4F);
  x = x + projected(matmul(dropout(weights, in.is_training, {.rate = 0.2F}), projected(y)));
  y = gelu(dense(to_rows(layer_norm(x)), {.features = 2 * kWidth}));
  return x + to_places(dropout(dense(y, {.features = kWidth}), in.is_training, {.rate = 0.2F}));
}

TEST(ExactNetworks, TransformerWithTiedEmbeddingsAndDropoutEvaluatedBetweenSteps) {
  expect_exact({"transformer", [](Graph& graph, GraphSectionManager& manager) {
                  const Tokens in(graph);
                  Value table, x, loss;
                  {
                    auto section = manager.new_section();
                    table = variable("table", random_normal(graph, {kVocabulary, kWidth}, {.stddev = 0.3F}));
                    const Value places = variable("places", random_normal(graph, {kLength, kWidth}, {.stddev = 0.3F}));
                    x = gather(table, in.tokens) + places;
                  }
                  for (int block = 0; block < 3; ++block) {
                    auto section = manager.new_section();
                    x = transformer_block(x, in);
                  }
                  {
                    auto section = manager.new_section();
                    const Value logits = matmul(reshape(layer_norm(x), {-1, kWidth}), table, {.transpose_b = true});
                    loss = mean(softmax_cross_entropy(logits, in.next));
                  }
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds(), {loss}, in.feeds(false)};
                }});
}

TEST(ExactNetworks, OneTableIsLookedUpInEverySectionAndReadByTheLossOutside) {
  expect_exact({"table everywhere", [](Graph& graph, GraphSectionManager& manager) {
                  const Tokens in(graph);
                  const Value table = variable("table", random_normal(graph, {kVocabulary, kWidth}, {.stddev = 0.3F}));
                  Value x = gather(table, in.tokens);
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = tanh(x * 1.5F) + gather(table, in.tokens);
                  }
                  const Value logits = matmul(reshape(x, {-1, kWidth}), table, {.transpose_b = true});
                  const Value loss = mean(softmax_cross_entropy(logits, in.next));
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

// ---- What stands outside of the sections.

TEST(ExactNetworks, MasksAndPreparedInputsAreComputedOutside) {
  expect_exact({"masks", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  // Pixels below a threshold do not count; classes 0 and 1 count half.
                  const Value bright = cast(greater(in.images, constant(graph, -0.5F)), Dtype::f32);
                  const Value weights =
                      cast(less(in.labels, fill(graph, {}, 2, Dtype::i32)), Dtype::f32) * -0.5F + 1.0F;
                  const Value centred = in.images - reduce_mean(in.images, {.axes = {1, 2}, .keep_dims = true});
                  Value x = centred * bright;
                  for (int i = 0; i < 2; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4) * reduce_mean(bright, {.axes = {3}, .keep_dims = true});
                  }
                  Value logits, loss;
                  {
                    auto section = manager.new_section();
                    logits = dense(reduce_mean(x, {.axes = {1, 2}}), {.features = kClasses});
                  }
                  loss = mean(softmax_cross_entropy(logits, in.labels) * weights);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds()};
                }});
}

TEST(ExactNetworks, SeveralLossesOfSectionsAndOneOutside) {
  expect_exact({"losses", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value x = in.images;
                  std::vector<Value> losses;
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4);
                    if (i != 1) losses.push_back(head_loss(x, in.labels));
                  }
                  // The penalty reads variables of all sections, the sum all losses.
                  Value loss = head_loss(x * 0.5F, in.labels);
                  for (Value other : losses) loss = loss + other * 0.3F;
                  for (Value variable : graph.values(kTrainableVariables)) {
                    loss = loss + reduce_sum(square(variable)) * 1e-3F;
                  }
                  finish(manager, loss, Sgd{.learning_rate = 0.05F});
                  return TrainingNet{loss, in.feeds()};
                }});
}

// ---- Updates.

TEST(ExactNetworks, VariableThatAMiddleSectionUpdatesIsReadByEverySection) {
  expect_exact({"read and updated", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  const Value level = variable("level", fill(graph, {4}, 0.1), {.trainable = false});
                  Value x = in.images;
                  for (int i = 0; i < 4; ++i) {
                    auto section = manager.new_section();
                    x = conv_norm_relu(x, in.is_training, 4) + level;
                    if (i == 0 || i == 3) continue;
                    const Value means = reduce_mean(x, {.axes = {0, 1, 2}});
                    const Operation update = i == 1 ? assign_add(level, means * 0.01F)
                                                    : update_moving_average(level, means, in.is_training, 0.9F);
                    graph.add_to_collection(kUpdateOperations, update);
                  }
                  const Value loss = head_section(manager, x, in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss, in.feeds(), {loss}, in.feeds(nullptr, false)};
                }});
}

TEST(ExactNetworks, BatchNormWithReluInsideAndLayerNorm) {
  expect_exact({"norms", [](Graph& graph, GraphSectionManager& manager) {
                  const Inputs in(graph);
                  Value x = in.images;
                  for (int i = 0; i < 3; ++i) {
                    auto section = manager.new_section();
                    x = batch_norm(conv2d(x, {.features = 4}), in.is_training, {.decay = 0.8F, .relu = true});
                    x = layer_norm(x) + x;
                  }
                  const Value loss = head_section(manager, x, in.labels);
                  finish(manager, loss);
                  return TrainingNet{loss,
                                     in.feeds([](std::int64_t step) { return step == 19 ? 1 : kBatch; }),
                                     {loss},
                                     in.feeds(nullptr, false)};
                }});
}

}  // namespace
}  // namespace sectionflow::testing

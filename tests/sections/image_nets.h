#pragma once

#include <functional>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/training_case.h"

// Parts of which the exactness tests put their networks together.
namespace sectionflow::testing {

inline constexpr std::int64_t kBatch = 6;
inline constexpr int kClasses = 5;

/// Images, labels and a boolean, with feeds of random data.
struct Inputs {
  explicit Inputs(Graph& graph)
      : images(placeholder(graph, "images", {kDynamic, 8, 8, 3})),
        labels(placeholder(graph, "labels", {kDynamic}, Dtype::i32)),
        is_training(placeholder(graph, "is_training", {}, Dtype::boolean)) {}

  /// The batch size may change from step to step.
  std::function<Feeds(std::int64_t, FeedStore&)> feeds(std::function<std::int64_t(std::int64_t)> batch_of = nullptr,
                                                       bool training = true) const {
    const Inputs in = *this;
    return [in, batch_of, training](std::int64_t step, FeedStore& store) {
      const std::int64_t batch = batch_of ? batch_of(step) : kBatch;
      store.reserve(store.size() + 2);
      store.push_back(random_images({batch, 8, 8, 3}, 11, step));
      store.push_back(random_classes(batch, kClasses, 11, step));
      return Feeds{{in.images, store[store.size() - 2]}, {in.labels, store.back()}, {in.is_training, training}};
    };
  }

  Value images, labels, is_training;
};

inline Value conv_norm_relu(Value x, Value is_training, std::int64_t filters, std::int64_t stride = 1) {
  return relu(batch_norm(conv2d(x, {.features = filters, .stride = {stride, stride}}), is_training, {.decay = 0.9F}));
}

inline Value head_loss(Value x, Value labels) {
  return mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = kClasses}), labels));
}

/// A section of its own for the head.
inline Value head_section(GraphSectionManager& manager, Value x, Value labels) {
  const auto section = manager.new_section();
  return head_loss(x, labels);
}

inline void finish(GraphSectionManager& manager, Value loss,
                   const Optimizer& optimizer = Adam{.learning_rate = 1e-2F}) {
  manager.add_training_ops(optimizer, loss);
  manager.prepare_training();
}

}  // namespace sectionflow::testing

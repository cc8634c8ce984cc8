#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "autodiff/optimizers.h"
#include "graph/graph.h"
#include "runtime/session.h"

namespace sectionflow::testing_support {

/// What a random model is made of. The same options give the same model, whatever `at_border` does.
struct RandomModelOptions {
  std::uint64_t seed = 0;
  int min_layers = 3;
  int max_layers = 8;
  bool batch_norm = true;
  bool random_ops = true;  ///< noise that is added to activations
  /// Called before each layer, layer 0 included, with the number of the layer: sections can be cut here. Placeholders
  /// are made before the first call; the loss belongs to the last layer.
  std::function<void(int layer)> at_border{};
};

/// A small model that can be trained: images [?, H, W, C] through convolutions, batch norms, sums and products with
/// earlier tensors (skip connections, fan-out), kernels and scales used several times, dense layers, cross entropy.
struct RandomModel {
  Value images;                    ///< f32 [?, H, W, C]
  Value labels;                    ///< i32 [?]
  Value is_training;               ///< bool []; fed although some models have no use for it
  Value logits;                    ///< [?, classes]
  Value loss;                      ///< scalar
  std::vector<Value> activations;  ///< what each layer gives, in order
  std::string text;                ///< for messages: "seed 17: conv bn skip ..."
};

RandomModel build_random_model(Graph& graph, const RandomModelOptions& options);

/// Sgd or Adam, by the seed.
Optimizer random_optimizer(std::uint64_t seed);

/// One batch for a random model. The feeds point into it.
struct RandomBatch {
  HostTensor images, labels;
  Feeds feeds(const RandomModel& model, bool is_training = true) const {
    return {{model.images, images}, {model.labels, labels}, {model.is_training, is_training}};
  }
  FeedTypes types(const RandomModel& model, bool is_training = true) const {
    return {{model.images, images.shape()}, {model.labels, labels.shape()}, {model.is_training, is_training}};
  }
};
RandomBatch random_batch(const RandomModel& model, std::int64_t batch, std::uint64_t seed);

/// A model with its training operations, in one graph.
struct TrainableRandomModel {
  explicit TrainableRandomModel(const RandomModelOptions& options);

  Graph graph;
  RandomModel model;
  RunOptions training;  ///< the targets of a training step
};

}  // namespace sectionflow::testing_support

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "compare/compare_strategies.h"
#include "examples/models/section_cutter.h"

namespace sectionflow {

/// A part of a network that a section may end after.
using ModelBlock = std::function<Value(Value x)>;

/// The blocks of a network for images, from f32 [N, ..., C] to its logits: [N, classes], or [N, ..., classes] for a
/// network that classifies each pixel. The blocks may share what is used far behind them, such as skip connections.
using ImageNetwork = std::function<std::vector<ModelBlock>(Value is_training)>;

/// A second classifier that reads what a block in the middle has made, and whose loss is added to the network's.
struct AuxiliaryHead {
  std::size_t block = 0;  ///< whose result it reads, and in whose section it is; less than there are blocks
  float weight = 1;       ///< of its mean cross entropy
  std::function<Value(Value x, Value is_training)> logits{};
};

struct ImageModelOptions {
  std::vector<std::int64_t> image = {224, 224, 3};  ///< height, width, channels; before them a depth in 3-D
  bool labels_per_pixel = false;                    ///< labels [N, ...] rather than [N]
  std::vector<AuxiliaryHead> auxiliary_heads{};
  Cut cut{};
  Optimizer optimizer = Sgd{};
  int ranks = 1;  ///< that train together: TrainingOptions::ranks
};

struct ImageModel {
  Value images;       ///< f32 [?, image...]
  Value labels;       ///< i32 [?], or [?, ...] without the channels of the image
  Value is_training;  ///< bool []
  Value logits;
  Value loss;  ///< mean cross entropy, and with auxiliary heads theirs
};

/// Builds a network in sections over its blocks, the loss in the last one, adds the training operations and prepares
/// the manager. Throws: ArgumentError for an auxiliary head behind a block that is not there; what the network throws.
ImageModel build_image_model(Graph& graph, GraphSectionManager& manager, const ImageNetwork& network,
                             const ImageModelOptions& options);

/// The same as something to train by any strategy.
TrainableModel trainable_image_model(Graph& graph, GraphSectionManager& manager, const ImageNetwork& network,
                                     const ImageModelOptions& options);

}  // namespace sectionflow

#pragma once

#include "compare/compare_strategies.h"
#include "examples/models/section_cutter.h"
#include "sections/graph_section_manager.h"

namespace sectionflow {

struct MnistResnetOptions {
  /// 2: after scale1; 4: after each scale; blocks: one a residual block, where the stem goes with the first and the
  /// head with the last; other numbers evenly over those.
  Cut cut = {.sections = 4};
  Optimizer optimizer = Adam{.learning_rate = 1e-4};
  float decay = 0.999F;          ///< of the moving averages
  Dtype precision = Dtype::f32;  ///< bf16: of activations and products, as MixedPrecision says
  bool verbose = false;          ///< log the passes
  int ranks = 1;                 ///< that train together: TrainingOptions::ranks
};

struct MnistResnet {
  Value images;       ///< f32 [?, 28, 28, 1]
  Value labels;       ///< i32 [?]
  Value is_training;  ///< bool []
  Value logits;       ///< [?, 10]
  Value loss;         ///< mean cross entropy
  Value accuracy;     ///< share of images whose largest logit is that of their label; outside of all sections
};

/// The residual network for MNIST of PartialFlow's example: 3x3 convolution with 16 filters, batch norm, relu; three
/// scales of 16, 32 and 64 channels with 3, 3 and 5 pre-activation blocks (He et al. 2016); mean over the image; fully
/// connected. Adds the training operations and prepares the manager.
MnistResnet build_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options = {});

/// The same as something to compare strategies on.
TrainableModel trainable_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options);

}  // namespace sectionflow

#pragma once

#include <string>

#include "sections/graph_section_manager.h"
#include "train/compare_strategies.h"

namespace sectionflow {

/// Where the network is cut.
enum class MnistCut {
  one,    ///< one section
  two,    ///< after scale1
  four,   ///< after each scale
  blocks  ///< one section a residual block; the stem goes with the first, the head with the last
};

/// "1", "2", "4" or "blocks". Throws: ArgumentError for anything else.
MnistCut mnist_cut(const std::string& name);

struct MnistResnetOptions {
  MnistCut cut = MnistCut::four;
  float learning_rate = 1e-4F;  ///< of Adam
  float decay = 0.999F;         ///< of the moving averages
  bool verbose = false;         ///< log the passes
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
/// connected. Adds the training operations (Adam) and prepares the manager.
MnistResnet build_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options = {});

/// The same as something to compare strategies on.
TrainableModel trainable_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options);

}  // namespace sectionflow

#pragma once

#include <vector>

#include "graph/graph.h"

namespace sectionflow {

struct MnistDeep {
  Value images;       ///< f32 [?, 28, 28, 1]
  Value labels;       ///< i32 [?]
  Value is_training;  ///< bool []
  Value loss;         ///< mean cross entropy
  Value accuracy;     ///< share of images that are classified rightly
  std::vector<Operation> training;
};

/// The network of the tutorial that Large Model Support was shown with, in its scopes: conv1, pool1, conv2, pool2, fc1,
/// dropout, fc2, loss, adam_optimizer and accuracy. Twice a 5x5 convolution, 32 and 64 filters, with relu and 2x2 max
/// pooling; dense 1024 with relu, dropout, dense 10; Adam. 3,274,634 parameters, no sections.
MnistDeep build_mnist_deep(Graph& graph, float learning_rate = 1e-4F);

}  // namespace sectionflow

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compare/compare_strategies.h"
#include "examples/models/section_cutter.h"
#include "examples/models/synthetic_batches.h"
#include "sections/graph_section_manager.h"

namespace sectionflow {

/// What can be asked of a model by its name. Numbers of 0 leave the model its own; a model refuses what it has not.
struct ZooOptions {
  Cut cut{};
  Optimizer optimizer = Sgd{};
  std::int64_t image = 0;        ///< height and width of images; depth too in 3-D
  std::int64_t classes = 0;      ///< classes
  std::int64_t width = 0;        ///< channels of the first stage; growth rate of a densenet; features of a token
  std::int64_t layers = 0;       ///< blocks of a transformer, or recurrent layers
  std::int64_t heads = 0;        ///< of its attention
  std::int64_t sequence = 0;     ///< tokens in a text
  std::int64_t vocabulary = 0;   ///< different tokens
  Dtype precision = Dtype::f32;  ///< bf16: of activations and products, as MixedPrecision says
  bool dropout = true;           ///< false: at a rate of 0, as where random numbers are not another's
  int ranks = 1;                 ///< that train together: TrainingOptions::ranks
};

/// A model to be trained by any strategy, and data for it.
struct ZooModel {
  /// Builds it in its sections, adds the training operations and prepares the manager.
  std::function<TrainableModel(Graph&, GraphSectionManager&)> build;
  std::function<Batch(const BatchAddress&)> batch;
};

/// Throws: ArgumentError for a name that is none of zoo_names(), and for options that the model has not.
ZooModel zoo_model(const std::string& name, const ZooOptions& options = {});

std::vector<std::string> zoo_names();

/// Elements of all trainable variables.
std::int64_t num_parameters(const Graph& graph);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "autodiff/optimizers.h"
#include "autodiff/updates.h"
#include "examples/models/section_cutter.h"

namespace sectionflow {

struct GptOptions {
  int layers = 12;  ///< blocks of attention and perceptron
  std::int64_t width = 768;
  std::int64_t heads = 12;  ///< a divisor of the width
  std::int64_t sequence = 1024;
  std::int64_t vocabulary = 50257;
  float dropout = 0;            ///< rate behind the embedding and before each addition to the residual stream
  bool tied_embeddings = true;  ///< the table of tokens is the kernel of the head
  /// Natural blocks are the layers; the embedding goes with the first, the head with the last.
  Cut cut{};
  Optimizer optimizer = Adam{.learning_rate = 3e-4};
  /// Where there are any, in the place of the optimiser; blocks are "block/*", "block_1/*" and so on.
  std::vector<ParameterGroup> groups{};
  Dtype precision = Dtype::f32;  ///< bf16: of activations and products, as MixedPrecision says
  int ranks = 1;                 ///< that train together: TrainingOptions::ranks
};

struct Gpt {
  Value tokens;       ///< i32 [?, T]
  Value targets;      ///< i32 [?, T], the token behind each
  Value is_training;  ///< bool []; it matters with dropout alone
  Value logits;       ///< [? T, vocabulary], of the precision
  Value loss;         ///< mean cross entropy of the targets
};

/// A decoder in the style of GPT-2: learned positions, layer norm before each part of a block, causal attention, a
/// perceptron of four times the width with gelu. Adds the training operations and prepares the manager.
/// Throws: ArgumentError for options that do not fit. Source: Radford et al. 2019, with its initialisation.
Gpt build_gpt(Graph& graph, GraphSectionManager& manager, const GptOptions& options = {});

}  // namespace sectionflow

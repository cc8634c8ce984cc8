#pragma once

#include <cstdint>

#include "autodiff/optimizers.h"
#include "examples/models/section_cutter.h"

namespace sectionflow {

/// The sizes are those of TinyLlama, of 1.1 thousand million parameters.
struct LlamaOptions {
  int layers = 22;  ///< blocks of attention and gated perceptron
  std::int64_t width = 2048;
  std::int64_t heads = 32;           ///< of queries; a divisor of the width
  std::int64_t key_value_heads = 4;  ///< of keys and values; a divisor of the heads
  std::int64_t hidden = 5632;        ///< width of the gated units
  std::int64_t sequence = 2048;
  std::int64_t vocabulary = 32000;
  bool tied_embeddings = false;  ///< the table of tokens is the kernel of the head
  /// Natural blocks are the layers; the embedding goes with the first, the head with the last.
  Cut cut{};
  Optimizer optimizer = Adam{.learning_rate = 4e-4};
  int ranks = 1;  ///< that train together: TrainingOptions::ranks
};

struct Llama {
  Value tokens;   ///< i32 [?, T]
  Value targets;  ///< i32 [?, T], the token behind each
  Value logits;   ///< [? T, vocabulary]
  Value loss;     ///< mean cross entropy of the targets
};

/// A decoder in the style of LLaMA: rotary positions, heads of queries that share keys and values, rms norm before each
/// part of a block, gated units with silu, and no biases. Adds the training operations and prepares the manager.
/// Throws: ArgumentError for options that do not fit. Sources: Touvron et al. 2023; Zhang et al. 2024 (TinyLlama).
Llama build_llama(Graph& graph, GraphSectionManager& manager, const LlamaOptions& options = {});

}  // namespace sectionflow

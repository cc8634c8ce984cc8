#pragma once

#include <cstdint>

#include "autodiff/optimizers.h"
#include "examples/models/section_cutter.h"

namespace sectionflow {

/// What reads the tokens one after the other.
enum class RecurrentCell { lstm, gru };

struct RecurrentLmOptions {
  RecurrentCell cell = RecurrentCell::lstm;
  int layers = 2;                ///< of cells, one above the other
  std::int64_t width = 650;      ///< of a token's row and of each layer
  std::int64_t sequence = 64;    ///< tokens, which are the steps
  std::int64_t block_steps = 0;  ///< of a natural block; 0: 16, or a third of a sequence shorter than three of these
  std::int64_t vocabulary = 10000;
  float dropout = 0;            ///< rate behind the embedding and each layer
  bool tied_embeddings = true;  ///< the table of tokens is the kernel of the head
  /// Natural blocks are so many steps of all layers, with the loss of what they give; each begins with the states that
  /// the one before has given.
  Cut cut{};
  Optimizer optimizer = Adam{.learning_rate = 1e-3};
  int ranks = 1;  ///< that train together: TrainingOptions::ranks
};

struct RecurrentLm {
  Value tokens;       ///< i32 [?, T]
  Value targets;      ///< i32 [?, T], the token behind each
  Value is_training;  ///< bool []; it matters with dropout alone
  Value loss;         ///< mean cross entropy of the targets
};

/// A language model of recurrent layers: at first their states are zeros. Sections cut it by time, so that what a
/// training step keeps does not grow with the length of a text but with that of a section. Adds the training operations
/// and prepares the manager. Throws: ArgumentError for options that do not fit. Source: Zaremba et al. 2014, of which
/// the default width is the medium one; the tied head is that of Press and Wolf 2016.
RecurrentLm build_recurrent_lm(Graph& graph, GraphSectionManager& manager, const RecurrentLmOptions& options = {});

}  // namespace sectionflow

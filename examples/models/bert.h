#pragma once

#include <cstdint>

#include "autodiff/optimizers.h"
#include "examples/models/section_cutter.h"

namespace sectionflow {

/// The sizes are those of BERT-base.
struct BertOptions {
  int layers = 12;  ///< blocks of attention and perceptron
  std::int64_t width = 768;
  std::int64_t heads = 12;  ///< a divisor of the width
  std::int64_t sequence = 512;
  std::int64_t positions = 512;  ///< rows of the table of positions, as many as the sequence is long or more
  std::int64_t vocabulary = 30522;
  /// Texts are pairs: each token says to which of two segments it belongs. False: all belong to the first, and
  /// Bert::segments is no value.
  bool pairs = true;
  float dropout = 0;  ///< rate behind the embedding and of what each part of a block adds; 0.1 as published
  /// Natural blocks are the layers; the embedding goes with the first, the decoder with the last.
  Cut cut{};
  Optimizer optimizer = Adam{.learning_rate = 1e-4};
  int ranks = 1;  ///< that train together: TrainingOptions::ranks
};

struct Bert {
  Value tokens;       ///< i32 [?, T], some of them masked
  Value segments;     ///< i32 [?, T], 0 or 1
  Value labels;       ///< i32 [?, T]: what stood where a token is masked, -100 elsewhere
  Value is_training;  ///< bool []; it matters with dropout alone
  Value logits;       ///< [? T, vocabulary]
  Value loss;         ///< mean cross entropy of the labels that are not -100
};

/// An encoder trained to fill in masked tokens: embeddings of tokens, positions and segments are added and normalised;
/// in each block the sums are normalised; gelu is the exact one; the decoder is a dense layer, a layer norm and the
/// table of tokens, with a bias of its own. Adds the training operations and prepares the manager. Every token sees all
/// of its text: texts are of one length. Throws: ArgumentError for options that do not fit.
/// Source: Devlin et al. 2018, without the prediction of next sentences.
Bert build_bert(Graph& graph, GraphSectionManager& manager, const BertOptions& options = {});

}  // namespace sectionflow

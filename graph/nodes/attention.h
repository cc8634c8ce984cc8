#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/export.h"
#include "graph/ops/attention.h"

namespace SF_API sectionflow {

/// Options of the ops "attention" and "attention_grad", and of "attention_dropout" and "attention_dropout_grad", which
/// drop probabilities.
struct AttentionNodeOptions {
  bool causal = false;
  CausalAlignment alignment = CausalAlignment::equal;
  std::optional<float> scale{};
  std::int64_t window = 0;
  float dropout = 0;           ///< of ops that drop, > 0
  std::uint32_t ordinal = 0;   ///< of a gradient that drops: by which the forward node draws
  bool mask_gradient = false;  ///< of a gradient: it has the mask's as its last output

  bool drops() const { return dropout > 0; }
  bool is_bounded() const { return causal || window > 0; }
};

/// Which inputs a node has behind q, k and v or, of a gradient, behind the log sums; -1 where there is none. Their
/// types tell which they are: whole numbers are lengths.
struct AttentionInputs {
  int is_training = -1, key_lengths = -1, mask = -1;

  /// `first`: of the inputs that are asked for.
  AttentionInputs(std::span<const TensorType> inputs, int first, bool drops);
};

/// The options and optional inputs of a node of attention or of its gradient, as a user would give them. `first`: as
/// AttentionInputs.
AttentionOptions attention_options_of(const Node& node, int first);

/// The gradients of attention's inputs, shaped like them.
struct AttentionGradients {
  Value dq, dk, dv;
  Value dmask{};  ///< where it is asked for
};
/// `log_sums`: the second output of the forward op. `ordinal`: its random_ordinal(), where probabilities are dropped.
AttentionGradients attention_grad(Value dy, Value q, Value k, Value v, Value log_sums, const AttentionOptions& options,
                                  bool mask_gradient = false, std::uint32_t ordinal = 0);

}  // namespace sectionflow

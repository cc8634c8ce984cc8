#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How much dropout takes away.
struct DropoutOptions {
  float rate = 0.5F;  ///< share of the elements that become 0; in [0, 1)
};

/// While training each element is 0 with probability `rate` and x / (1 - rate) otherwise, so that its expectation is x;
/// in evaluation y = x. Which elements, is a function of (session seed, the node's ordinal among the graph's random
/// nodes, completed training cycles, element) alone, so no mask is kept. A rate of 0 gives x itself.
/// Shapes: any; y like x; is_training [], a boolean placeholder or constant. f32 or bf16. Throws: ArgumentError.
/// Source: Srivastava et al. 2014, with the scale at training time.
Value dropout(Value x, Value is_training, DropoutOptions options = {}, Where where = Where::here());
/// The same by the graph's training flag (Graph::training()).
Value dropout(Value x, DropoutOptions options = {}, Where where = Where::here());
/// dx, with the mask drawn once more at the address of the node `forward`, a dropout.
Value dropout_grad(Value dy, Value is_training, const Node& forward);

/// Options of the op "dropout_grad".
struct DropoutGradOptions {
  float rate = 0.5F;
  std::uint32_t ordinal = 0;  ///< of the forward node: where its random numbers come from
};
/// The same with the options of another dropout_grad: dy where that let it pass.
Value dropout_grad(Value dy, Value is_training, const DropoutGradOptions& options);

}  // namespace sectionflow

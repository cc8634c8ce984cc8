#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// While it lives, layers (graph/layers.h) compute in bf16, and so activations take half the memory: a layer casts its
/// input where that is f32, and its variables, which stay f32, wherever it reads them. Normalisation keeps its
/// variables and statistics in f32, softmax_cross_entropy takes logits of either dtype. Gradients of variables come out
/// in f32, so optimisers need not know. Scopes nest; `dtype` f32 makes layers compute in f32 again, also of bf16
/// inputs. Operations that are no layers take what they are given; `cast` joins the two dtypes.
///
///     const MixedPrecision precision(graph);
///     Value x = conv2d(images, {.features = 64});  // bf16
class [[nodiscard]] MixedPrecision {
 public:
  /// Throws: ArgumentError for a dtype other than bf16 and f32.
  explicit MixedPrecision(Graph& graph, Dtype dtype = Dtype::bf16, Where where = Where::here());

 private:
  GraphScope scope_;
};

}  // namespace sectionflow

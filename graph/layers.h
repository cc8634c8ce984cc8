#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/initializer.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/convolution.h"
#include "graph/ops/data_format.h"
#include "graph/ops/layer_norm.h"

namespace SF_API sectionflow {

// Layers (those of convolutions are beside their operations, in graph/ops/convolution.h) make their parameters as
// trainable variables below a name scope of their own: `<name>/kernel`, `<name>/bias`. x is f32 or bf16, and y like it,
// unless a MixedPrecision is open: then y is of its dtype. Variables are f32.

/// Of the layer dense: its width, its variables and their initial values.
struct DenseOptions {
  std::int64_t features = 0;  ///< outputs; must be set
  bool bias = true;
  Initializer kernel_initializer = glorot_uniform();
  Initializer bias_initializer = zeros();
  std::string name = "dense";
};
/// y = x kernel + bias. Shapes: x [..., C] of rank 2 or more, kernel [C, features], bias [features], y [..., features].
Value dense(Value x, const DenseOptions& options, Where where = Where::here());

/// Batch normalisation with scale (initially 1) and shift (0). The moving averages (of mean, initially 0, and biased
/// variance, initially 1) are variables that are not trained; their updates go to the collection "update_operations".
/// Shapes: x [..., C] (nchw: [N, C, ...]); y like x; is_training [], a boolean placeholder or constant.
Value batch_norm(Value x, Value is_training, const BatchNormOptions& options = {}, Where where = Where::here());
/// The same by the graph's training flag (Graph::training()).
Value batch_norm(Value x, const BatchNormOptions& options = {}, Where where = Where::here());

/// Layer normalisation over the last axis with scale (initially 1) and shift (0). Shapes: x [..., C] of any rank but 0;
/// scale, shift [C]; y like x.
Value layer_norm(Value x, const LayerNormOptions& options = {}, Where where = Where::here());

/// Normalisation of the last axis by its root mean square, with scale (initially 1): torch.nn.RMSNorm. Shapes: x [...,
/// C] of any rank but 0; scale [C]; y like x.
Value rms_norm(Value x, const RmsNormOptions& options = {}, Where where = Where::here());

/// Of the layer embedding: its table and the initial values.
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< rows of the table; must be set
  std::int64_t width = 0;       ///< numbers a row; must be set
  Initializer initializer = truncated_normal_initializer(0.02F);
  std::string name = "embedding";
};
/// Rows of a trainable table, `<name>/table`, by their numbers; see gather: a number outside of the vocabulary gives
/// NaN, not an error, and so a NaN loss (Session::set_value_checks names where it began). Shapes: indices [...] i32 or
/// i64, table [vocabulary, width], y [..., width].
Value embedding(Value indices, const EmbeddingOptions& options, Where where = Where::here());

/// While it lives, layers compute in bf16, and so activations take half the memory: a layer casts its input where that
/// is f32, and its variables, which stay f32, wherever it reads them. Normalisation keeps its variables and statistics
/// in f32, softmax_cross_entropy takes logits of either dtype. Gradients of variables come out in f32, so optimisers
/// need not know. Scopes nest; `dtype` f32 makes layers compute in f32 again, also of bf16 inputs. Operations that are
/// no layers take what they are given; `cast` joins the two dtypes.
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

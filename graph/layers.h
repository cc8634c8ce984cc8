#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/initializer.h"
#include "graph/ops/conv2d.h"
#include "graph/ops/conv3d.h"
#include "graph/ops/conv_transpose.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

// Layers make their parameters as trainable variables below a name scope of their own: `<name>/kernel`, `<name>/bias`.
// x is f32 or bf16, and y like it, unless a MixedPrecision is open (graph/mixed_precision.h): then y is of its dtype.
// Variables are f32.

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

/// Of the layer conv2d: Conv2dOptions, and the features, the bias and their initial values.
struct Conv2dLayerOptions {
  std::int64_t features = 0;  ///< outputs; must be set
  PerAxis<2> kernel = 3;
  PerAxis<2> stride = 1;
  Padding padding = Padding::same;
  PerAxis<2> dilation = 1;
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;
  bool bias = false;
  Initializer kernel_initializer = he_normal();
  Initializer bias_initializer = zeros();
  std::string name = "conv2d";
};
/// Convolution with a kernel of its own. Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw),
/// kernel [KH, KW, C / groups, features], bias [features], y [N, OH, OW, features].
Value conv2d(Value x, const Conv2dLayerOptions& options, Where where = Where::here());

/// Of the layer conv3d: Conv3dOptions, and the features, the bias and their initial values.
struct Conv3dLayerOptions {
  std::int64_t features = 0;  ///< outputs; must be set
  PerAxis<3> kernel = 3;
  PerAxis<3> stride = 1;
  Padding3d padding = Padding3d::same;
  PerAxis<3> dilation = 1;
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;
  bool bias = false;
  Initializer kernel_initializer = he_normal();
  Initializer bias_initializer = zeros();
  std::string name = "conv3d";
};
/// Convolution with a kernel of its own. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw),
/// kernel [KD, KH, KW, C / groups, features], bias [features], y [N, OD, OH, OW, features].
Value conv3d(Value x, const Conv3dLayerOptions& options, Where where = Where::here());

/// Of the layer conv_transpose2d: ConvTranspose2dOptions, and the features, the bias and their initial values.
struct ConvTranspose2dLayerOptions {
  std::int64_t features = 0;  ///< outputs; must be set
  PerAxis<2> kernel = 3;
  PerAxis<2> stride = 1;
  Padding padding = Padding::same;
  PerAxis<2> output_padding = 0;  ///< as ConvTranspose2dOptions say
  PerAxis<2> dilation = 1;
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;
  bool bias = false;
  Initializer kernel_initializer = he_normal();
  Initializer bias_initializer = zeros();
  std::string name = "conv_transpose2d";
};
/// Transposed convolution with a kernel of its own. Shapes: x [N, H, W, C] ([N, C, H, W] with DataFormat::nchw),
/// kernel [KH, KW, features / groups, C], bias [features], y [N, OH, OW, features].
Value conv_transpose2d(Value x, const ConvTranspose2dLayerOptions& options, Where where = Where::here());

/// Of the layer conv_transpose3d: ConvTranspose3dOptions, and the features, the bias and their initial values.
struct ConvTranspose3dLayerOptions {
  std::int64_t features = 0;  ///< outputs; must be set
  PerAxis<3> kernel = 3;
  PerAxis<3> stride = 1;
  Padding3d padding = Padding3d::same;
  PerAxis<3> output_padding = 0;  ///< as ConvTranspose3dOptions say
  PerAxis<3> dilation = 1;
  std::int64_t groups = 1;
  DataFormat format = DataFormat::nhwc;
  bool bias = false;
  Initializer kernel_initializer = he_normal();
  Initializer bias_initializer = zeros();
  std::string name = "conv_transpose3d";
};
/// Transposed convolution with a kernel of its own. Shapes: x [N, D, H, W, C] ([N, C, D, H, W] with DataFormat::nchw),
/// kernel [KD, KH, KW, features / groups, C], bias [features], y [N, OD, OH, OW, features].
Value conv_transpose3d(Value x, const ConvTranspose3dLayerOptions& options, Where where = Where::here());

/// Of the layer batch_norm: BatchNormOptions, and how its moving averages and variables are kept and called.
struct BatchNormLayerOptions {
  float decay = 0.999F;  ///< of the moving averages
  float epsilon = 1e-3F;
  bool relu = false;                     ///< y = max(0, .), in the same pass
  DataFormat format = DataFormat::nhwc;  ///< of x
  std::string name = "batch_norm";
};
/// Batch normalisation with scale (initially 1) and shift (0). The moving averages (of mean, initially 0, and biased
/// variance, initially 1) are variables that are not trained; their updates go to the collection "update_operations".
/// Shapes: x [..., C] (nchw: [N, C, ...]); y like x; is_training [], a boolean placeholder or constant.
Value batch_norm(Value x, Value is_training, const BatchNormLayerOptions& options = {}, Where where = Where::here());

/// Of the layer layer_norm: LayerNormOptions, and the name that its variables begin with.
struct LayerNormLayerOptions {
  float epsilon = 1e-5F;
  std::string name = "layer_norm";
};
/// Layer normalisation over the last axis with scale (initially 1) and shift (0). Shapes: x [..., C] of any rank but 0;
/// scale, shift [C]; y like x.
Value layer_norm(Value x, const LayerNormLayerOptions& options = {}, Where where = Where::here());

/// Of the layer embedding: its table and the initial values.
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;  ///< rows of the table; must be set
  std::int64_t width = 0;       ///< numbers a row; must be set
  Initializer initializer = truncated_normal_initializer(0.02F);
  std::string name = "embedding";
};
/// Rows of a trainable table, `<name>/table`, by their numbers; see gather. Shapes: indices [...] i32 or i64, table
/// [vocabulary, width], y [..., width].
Value embedding(Value indices, const EmbeddingOptions& options, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <string>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

/// How batch_norm normalises, what it does after that, and where the channels are. What is the layer's alone is refused
/// by the operation, whose running statistics are the caller's.
struct BatchNormOptions {
  float decay = 0.999F;                  ///< the layer's: of its moving averages; 0 to 1
  float epsilon = 1e-3F;                 ///< added to the variance
  bool relu = false;                     ///< y = max(0, .), in the same pass and in the gradient's
  DataFormat format = DataFormat::nhwc;  ///< nhwc: the last axis has the channels; nchw: the second
  std::string name = "batch_norm";       ///< the layer's: its variables are called `<name>/scale` and so on
};

/// What batch_norm gives. With running statistics, `mean` and `variance` repeat them.
struct BatchNormResult {
  Value y;         ///< like x
  Value mean;      ///< [C], of this batch
  Value variance;  ///< [C], of this batch, biased (divided by the count)
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift per channel. With `is_training` mean and variance are
/// those of the batch, and the running ones are not read; without it they are the running ones. With `relu` the same
/// bits as relu(batch_norm(x)), in y and in all gradients, without a tensor between: of all tensors like x, the
/// gradient reads x and dy alone. Shapes: x [..., C] (nchw: [N, C, ...]) of rank >= 2; scale, shift, running_mean,
/// running_variance [C]; is_training [], a boolean placeholder or constant. x and y f32 or bf16, all else f32. Throws:
/// ShapeError; ArgumentError, also for options that are the layer's. Source: Ioffe and Szegedy 2015.
BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           Value is_training, const BatchNormOptions& options = {}, Where where = Where::here());
/// The same by the graph's training flag (Graph::training()).
BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           const BatchNormOptions& options = {}, Where where = Where::here());

/// The gradients of batch_norm's x, scale and shift, shaped like them.
struct BatchNormGradients {
  Value dx, dscale, dshift;
};
/// The gradients of y. With `is_training` mean and variance are functions of x, otherwise constants. `shift` is read
/// with `relu` alone: whether y is positive is worked out again from x.
BatchNormGradients batch_norm_grad(Value dy, Value x, Value scale, Value shift, Value mean, Value variance,
                                   Value is_training, const BatchNormOptions& options);

}  // namespace sectionflow

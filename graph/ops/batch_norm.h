#pragma once

#include "graph/graph.h"

namespace sectionflow {

struct BatchNormOptions {
  float epsilon = 1e-3F;  ///< added to the variance
};

/// What batch_norm gives. With running statistics, `mean` and `variance` repeat them.
struct BatchNormResult {
  Value y;         ///< like x
  Value mean;      ///< [C], of this batch
  Value variance;  ///< [C], of this batch, biased (divided by the count)
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift per channel, the last axis. With `is_training` mean and
/// variance are those of the batch, and the running ones are not read; without it they are the running ones.
/// Shapes: x [..., C] of rank >= 2; scale, shift, running_mean, running_variance [C]; is_training [], a boolean
/// placeholder or constant. f32. Throws: ShapeError, ArgumentError.
/// Source: Ioffe and Szegedy 2015.
BatchNormResult batch_norm(Value x, Value scale, Value shift, Value running_mean, Value running_variance,
                           Value is_training, BatchNormOptions options = {}, Where where = Where::here());

struct BatchNormGradients {
  Value dx, dscale, dshift;
};
/// The gradients of y. With `is_training` mean and variance are functions of x, otherwise constants.
BatchNormGradients batch_norm_grad(Value dy, Value x, Value scale, Value mean, Value variance, Value is_training,
                                   BatchNormOptions options);

}  // namespace sectionflow

#pragma once

#include <string>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How layer_norm normalises. What is the layer's alone is refused by the operation.
struct LayerNormOptions {
  float epsilon = 1e-5F;            ///< added to the variance; >= 0
  std::string name = "layer_norm";  ///< the layer's: its variables are called `<name>/scale` and `<name>/shift`
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, with mean and biased variance of each row, the last axis.
/// Shapes: x [..., C] of rank >= 1 with C > 0; scale, shift [C]; y like x. x and y f32 or bf16, all else f32. Throws:
/// ShapeError; ArgumentError, also for options that are the layer's. Source: Ba, Kiros and Hinton 2016.
Value layer_norm(Value x, Value scale, Value shift, const LayerNormOptions& options = {}, Where where = Where::here());

/// The gradients of layer_norm's x, scale and shift, shaped like them.
struct LayerNormGradients {
  Value dx, dscale, dshift;
};
/// `mean` and `rstd`, 1 / sqrt(variance + epsilon): [...], the second and third output of the forward op.
LayerNormGradients layer_norm_grad(Value dy, Value x, Value scale, Value mean, Value rstd);

/// How rms_norm normalises. What is the layer's alone is refused by the operation.
struct RmsNormOptions {
  float epsilon = 1e-5F;          ///< added to the mean square; >= 0. PyTorch's is 1.19e-7 in f32 where none is given
  std::string name = "rms_norm";  ///< the layer's: its variable is called `<name>/scale`
};

/// y = x / sqrt(mean of x^2 + epsilon) * scale, with the mean of each row, the last axis: torch.nn.functional.rms_norm.
/// Shapes: x [..., C] of rank >= 1 with C > 0; scale [C]; y like x. x and y f32 or bf16, all else f32. Throws:
/// ShapeError; ArgumentError, also for options that are the layer's. Source: Zhang and Sennrich 2019.
Value rms_norm(Value x, Value scale, const RmsNormOptions& options = {}, Where where = Where::here());

/// The gradients of rms_norm's x and scale, shaped like them.
struct RmsNormGradients {
  Value dx, dscale;
};
/// `rstd`, 1 / sqrt(mean of x^2 + epsilon): [...], the second output of the forward op.
RmsNormGradients rms_norm_grad(Value dy, Value x, Value scale, Value rstd);

}  // namespace sectionflow

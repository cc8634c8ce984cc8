#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

/// How group_norm normalises, and where the channels are. What is the layer's alone is refused by the operation.
struct GroupNormOptions {
  std::int64_t groups = 0;               ///< must be set: a divisor of the channels
  float epsilon = 1e-5F;                 ///< added to the variance; >= 0
  DataFormat format = DataFormat::nhwc;  ///< nhwc: the last axis has the channels; nchw: the second
  std::string name = "group_norm";       ///< the layer's: its variables are called `<name>/scale` and `<name>/shift`
};

/// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, with mean and biased variance of each group of an
/// example: C / groups neighbouring channels at all places. scale and shift are those of a channel. No example depends
/// on another, and evaluation is as training. Shapes: x [N, ..., C] (nchw: [N, C, ...]) of rank >= 2; scale, shift [C];
/// y like x. x and y f32 or bf16, all else f32. Throws: ShapeError; ArgumentError, also for options that are the
/// layer's. Source: Wu and He 2018.
Value group_norm(Value x, Value scale, Value shift, const GroupNormOptions& options, Where where = Where::here());
/// The layer, with scale (initially 1) and shift (0) as variables: torch.nn.GroupNorm. C must be known.
Value group_norm(Value x, const GroupNormOptions& options, Where where = Where::here());

/// How the layer instance_norm normalises, and where the channels are.
struct InstanceNormOptions {
  float epsilon = 1e-5F;                 ///< added to the variance; >= 0
  DataFormat format = DataFormat::nhwc;  ///< nhwc: the last axis has the channels; nchw: the second
  std::string name = "instance_norm";    ///< its variables are called `<name>/scale` and `<name>/shift`
};
/// The layer group_norm with a group for each channel: torch.nn.InstanceNorm2d, and of other ranks, with affine=True.
Value instance_norm(Value x, const InstanceNormOptions& options = {}, Where where = Where::here());

/// The gradients of group_norm's x, scale and shift, shaped like them.
struct GroupNormGradients {
  Value dx, dscale, dshift;
};
/// `mean` and `rstd`, 1 / sqrt(variance + epsilon): [N, groups], the second and third output of the forward op.
GroupNormGradients group_norm_grad(Value dy, Value x, Value scale, Value mean, Value rstd,
                                   const GroupNormOptions& options);

}  // namespace sectionflow

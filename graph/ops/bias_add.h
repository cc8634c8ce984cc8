#pragma once

#include "base/export.h"
#include "graph/graph.h"
#include "graph/ops/data_format.h"

namespace SF_API sectionflow {

/// Where the channels of x are.
struct BiasAddOptions {
  DataFormat format = DataFormat::nhwc;  ///< nhwc: the last axis has the channels; nchw: the second
};

/// y = x + b per channel. Shapes: x [..., C] (nchw: [N, C, ...]), b [C], y like x. f32 or bf16. Throws: ShapeError,
/// ArgumentError.
Value bias_add(Value x, Value b, BiasAddOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

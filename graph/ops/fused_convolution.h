#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/nodes/convolution.h"

namespace SF_API sectionflow {

/// Options of the ops "fused_conv2d" and "fused_conv3d".
struct FusedConvolutionOptions {
  ConvolutionOptions convolution{};
  bool relu = false;  ///< y = max(0, .), of all
};

/// A convolution with what stands behind it in a network: y = conv(x, w) + b [+ residual], and where it is wanted
/// max(0, y), without a tensor between. For inference: it has no gradient. Shapes: x, w and y as of conv2d and conv3d,
/// whose options it takes; b [F]; residual like y, or no value. All f32. A relu by oneDNN gives 0 for NaN. Throws:
/// ShapeError, ArgumentError.
Value fused_convolution(Value x, Value w, Value b, Value residual, const FusedConvolutionOptions& options,
                        std::string_view name = {}, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/node.h"
#include "graph/ops/quantized_convolution.h"

namespace SF_API sectionflow {

/// A quantised convolution or product as kernels see it: a product of rows is a convolution of one row of pixels with a
/// window of one.
struct QuantizedProblem {
  ConvolutionOptions convolution{};
  Shape x{}, w{};  ///< as a convolution has them
  QuantizedProductOptions product{};
};
/// Of a node of either kind and its concrete types.
QuantizedProblem quantized_problem(const Node& node, const Shape& x, const Shape& w);

}  // namespace sectionflow

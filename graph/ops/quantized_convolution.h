#pragma once

#include <cstddef>
#include <string_view>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/nodes/convolution.h"
#include "graph/ops/quantize.h"

namespace SF_API sectionflow {

/// What is added up, exactly, in an i32: products of 8 bits by so many that their sum fits.
inline constexpr std::int64_t kMostQuantizedProducts = 65536;

/// Options of quantized_matmul.
struct QuantizedProductOptions {
  QuantizedResult result{};
  float residual_factor = 1;  ///< where there is a residual
};
/// Options of the ops "quantized_conv2d" and "quantized_conv3d".
struct QuantizedConvolutionOptions {
  ConvolutionOptions convolution{};
  QuantizedProductOptions product{};
};

/// y = sum * factor + bias [+ residual * residual_factor], where sum is the convolution of the integers x and w, exact
/// in i32, and each of the four steps behind it is rounded to f32 by itself; then as the result's options say. Where x
/// stands for x_scale * x, w for w_scale[f] * w and y for y_scale * y, the factor of filter f is x_scale * w_scale[f] /
/// y_scale, the bias that of the numbers, over y_scale, and the factor of the residual residual_scale / y_scale; an f32
/// result has y_scale 1. Zero points are 0. Channels are last. For inference: it has no gradient.
/// Shapes: x, w and y as of conv2d and conv3d; factor and bias [F]; residual like y, or no value. x and the residual i8
/// or u8, w i8, factor and bias f32; the residual may be f32. Throws: ShapeError, ArgumentError, also where more than
/// kMostQuantizedProducts products make an element.
Value quantized_convolution(Value x, Value w, Value factor, Value bias, Value residual,
                            const QuantizedConvolutionOptions& options, std::string_view name = {},
                            Where where = Where::here());
/// The same of rows x [..., C] and a matrix w [C, F]; y [..., F].
Value quantized_matmul(Value x, Value w, Value factor, Value bias, Value residual = {},
                       const QuantizedProductOptions& options = {}, std::string_view name = {},
                       Where where = Where::here());

}  // namespace sectionflow

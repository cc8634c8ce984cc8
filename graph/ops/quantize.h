#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Numbers as integers of 8 bits, for inference; docs/inference.md tells how whole graphs come to them. An integer q
// stands for scale * (q - zero_point). Wherever a number becomes an integer, it is rounded to the nearest, halves to
// the even one; `quantize` adds the zero point to that, so that by an odd one halves come to odd integers. What the
// dtype does not hold becomes the least or the largest that it holds; NaN becomes the least. All of it has the same
// bits on every instruction set and for every number of threads. None of these has a gradient.

/// How integers stand for numbers.
struct QuantizeOptions {
  Dtype dtype = Dtype::i8;      ///< of the integers: i8 or u8; of `dequantize`, which goes by its input, unused
  std::int64_t zero_point = 0;  ///< the integer that stands for 0; a number of the dtype
  /// Where there is a scale for each channel: which axis of x they are, -1 the last.
  std::int64_t axis = -1;
};

/// q = x / scale, which is rounded to f32, as an integer, + zero_point. Shapes: x of any, f32; scale [] or [C], f32,
/// above 0; q like x, i8 or u8. Throws: ShapeError, ArgumentError.
Value quantize(Value x, Value scale, const QuantizeOptions& options = {}, Where where = Where::here());
/// x = scale * (q - zero_point), f32. Shapes and errors as of quantize.
Value dequantize(Value q, Value scale, const QuantizeOptions& options = {}, Where where = Where::here());

/// What a quantised operation makes of the f32 number that it computes.
struct QuantizedResult {
  Dtype dtype = Dtype::f32;  ///< i8 or u8: rounded to the nearest integer; f32: as it is
  bool relu = false;         ///< max(0, .) before that; NaN gives 0
};
/// Options of quantized_add.
struct QuantizedAddOptions {
  float a_factor = 1, b_factor = 1;
  QuantizedResult result{};
};
/// y = a * a_factor + b * b_factor of integers: where a stands for a_scale * a, the factor is a_scale / y_scale.
/// Shapes: a, b and y alike; a and b i8 or u8, zero points 0. Throws: ShapeError, ArgumentError.
Value quantized_add(Value a, Value b, const QuantizedAddOptions& options, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/ops/quantize.h"

namespace SF_API sectionflow {

/// Whether a dtype is one of the integers that stand for numbers: i8 or u8.
constexpr bool is_quantized(Dtype dtype) {
  return dtype == Dtype::i8 || dtype == Dtype::u8;
}
/// The lowest and the highest integer of i8 or u8.
constexpr std::int64_t lowest_of(Dtype dtype) {
  return dtype == Dtype::i8 ? -128 : 0;
}
constexpr std::int64_t highest_of(Dtype dtype) {
  return dtype == Dtype::i8 ? 127 : 255;
}

/// The smallest scale that a graph is given: what is smaller would be flushed to zero.
inline constexpr float kLeastScale = 0x1p-120F;

/// Throws: ArgumentError that begins with `label` unless the type is i8 or u8.
void check_quantized(const TensorType& type, const std::string& label);
/// The same of what an operation shall give, which may also be f32.
void check_result(const QuantizedResult& result, const std::string& label);

/// The scales of a tensor [outer, channels, inner]; one channel where one scale is for all.
struct ScaledAxes {
  std::int64_t outer = 1, channels = 1, inner = 1;

  ScaledAxes(const Shape& shape, const Shape& scale, std::int64_t axis) {
    if (scale.rank() == 0) {
      inner = shape.num_elements();
      return;
    }
    const auto of_scales = static_cast<int>(axis < 0 ? axis + shape.rank() : axis);
    for (int i = 0; i < shape.rank(); ++i) (i < of_scales ? outer : i == of_scales ? channels : inner) *= shape[i];
  }
  std::int64_t num_elements() const { return outer * channels * inner; }
};

/// Fields of a file (graph/option_fields.h).
template <class Fields, class Result>
void describe_result(Fields& fields, Result& result) {
  fields("dtype", result.dtype);
  fields("relu", result.relu);
}

}  // namespace sectionflow

#pragma once

#include <cstdint>

#include "graph/nodes/quantize.h"
#include "kernels/formulas/quantize.h"

namespace sectionflow {

/// `visit(T{})` for the C++ type of i8, u8 or f32.
template <class Visit>
decltype(auto) with_quantized_type(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::i8:
      return visit(std::int8_t{});
    case Dtype::u8:
      return visit(std::uint8_t{});
    default:
      return visit(float{});
  }
}

/// What becomes of a number under these options.
inline formulas::Requantize requantize_of(const QuantizedResult& result) {
  formulas::IntegerRange range{static_cast<float>(lowest_of(result.dtype)),
                               static_cast<float>(highest_of(result.dtype))};
  if (result.relu) range.lowest = 0;
  return {range, result.relu};
}

inline formulas::Quantize quantize_of(const QuantizeOptions& options) {
  return {{static_cast<float>(lowest_of(options.dtype) - options.zero_point),
           static_cast<float>(highest_of(options.dtype) - options.zero_point)},
          static_cast<std::int32_t>(options.zero_point)};
}

}  // namespace sectionflow

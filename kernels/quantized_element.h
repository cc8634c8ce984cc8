#pragma once

#include <cstdint>
#include <vector>

#include "graph/nodes/quantize.h"
#include "kernels/formulas/quantize.h"
#include "kernels/kernel.h"

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

/// That y may lie over an input, where an element of each has as many bytes.
inline std::vector<InPlace> over_input(const KernelRequest& request, int input) {
  const Dtype x = request.inputs[static_cast<std::size_t>(input)].dtype, y = request.outputs[0].dtype;
  if (dtype_bytes(x) != dtype_bytes(y)) return {};
  return {{.input = input, .output = 0}};
}

inline formulas::Quantize quantize_of(const QuantizeOptions& options) {
  return {{static_cast<float>(lowest_of(options.dtype) - options.zero_point),
           static_cast<float>(highest_of(options.dtype) - options.zero_point)},
          static_cast<std::int32_t>(options.zero_point)};
}

}  // namespace sectionflow

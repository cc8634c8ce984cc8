#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/host_device.h"

namespace sectionflow {

/// One element in another dtype: floats to integers towards zero, NaN and values out of range to 0; integers modulo
/// 2^bits; f64 to f32 to the nearest, beyond its range to infinity; to bf16 by way of
/// f32, rounded twice.
template <class To, class From>
SF_HOST_DEVICE To convert_element(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert_element<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return BFloat16(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Both bounds are powers of two (or 0), so exact in From; NaN fails the comparisons. What lies less than 1 below
    // the lowest integer is cut to it, where From has such numbers.
    constexpr From kLowest = static_cast<From>(std::numeric_limits<To>::lowest());
    constexpr From kBound = From{2} * static_cast<From>(std::uint64_t{1} << (std::numeric_limits<To>::digits - 1));
    constexpr bool kHasFractions = kLowest - 1 < kLowest;
    const bool is_in_range = (kHasFractions ? x > kLowest - 1 : x >= kLowest) && x < kBound;
    // Chosen before the conversion, which may then run on a whole vector.
    return static_cast<To>(is_in_range ? x : From{0});
  } else {
    return static_cast<To>(x);
  }
}

/// `visit(T{})` for the C++ type of a dtype.
template <class Visit>
decltype(auto) with_element_type(Dtype dtype, Visit&& visit) {
  switch (dtype) {
    case Dtype::f32:
      return visit(float{});
    case Dtype::f64:
      return visit(double{});
    case Dtype::i32:
      return visit(std::int32_t{});
    case Dtype::i64:
      return visit(std::int64_t{});
    case Dtype::i8:
      return visit(std::int8_t{});
    case Dtype::u8:
      return visit(std::uint8_t{});
    case Dtype::boolean:
      return visit(bool{});
    case Dtype::bf16:
      return visit(BFloat16{});
  }
  throw InternalError("with_element_type: unknown dtype");
}

}  // namespace sectionflow

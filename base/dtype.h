#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/export.h"
#include "base/host_device.h"

namespace SF_API sectionflow {

/// Element types of tensors. `boolean` is one byte, 0 or 1; `bf16` is BFloat16.
enum class Dtype : std::uint8_t { f32, f64, i32, i64, u8, boolean, bf16, i8 };

/// Whether it is one of these: a number that was cast to a Dtype may be none.
bool is_dtype(Dtype dtype);

/// Bytes of one element.
std::size_t dtype_bytes(Dtype dtype);

/// "f32", "i64", "bool", ...
std::string_view dtype_name(Dtype dtype);

/// Whether elements are floating point numbers: f32, f64 or bf16.
bool is_floating(Dtype dtype);

/// A number of 16 bits: the upper half of a float, so the range of f32 with a precision of 8 bits (epsilon 2^-7).
/// Arithmetic is done in float, to which it converts by itself; the way back rounds and is therefore written out.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  /// To the nearest, ties to the even one; beyond the range to infinity; NaN stays NaN, made quiet.
  SF_HOST_DEVICE explicit BFloat16(float x) : bits(rounded(std::bit_cast<std::uint32_t>(x))) {}
  /// Exact.
  SF_HOST_DEVICE operator float() const {  // NOLINT: nothing is lost
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  // Without a branch: loops of it become vectors.
  SF_HOST_DEVICE static std::uint16_t rounded(std::uint32_t x) {
    const std::uint32_t nearest = (x + 0x7FFFU + ((x >> 16) & 1U)) >> 16;
    const std::uint32_t quiet = (x >> 16) | 0x40U;
    return static_cast<std::uint16_t>((x & 0x7FFFFFFFU) > 0x7F800000U ? quiet : nearest);
  }
};

/// `value`: the Dtype whose elements are `T` in C++. Other types have none.
template <class T>
struct DtypeOf;
/// float in C++ is f32.
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
/// double in C++ is f64.
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
/// std::int32_t in C++ is i32.
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
/// std::int64_t in C++ is i64.
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::i64;
};
/// std::uint8_t in C++ is u8.
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
/// std::int8_t in C++ is i8.
template <>
struct DtypeOf<std::int8_t> {
  static constexpr Dtype value = Dtype::i8;
};
/// bool in C++ is boolean.
template <>
struct DtypeOf<bool> {
  static constexpr Dtype value = Dtype::boolean;
};
/// BFloat16 in C++ is bf16.
template <>
struct DtypeOf<BFloat16> {
  static constexpr Dtype value = Dtype::bf16;
};

/// The Dtype whose elements are `T` in C++.
template <class T>
inline constexpr Dtype dtype_of = DtypeOf<T>::value;

}  // namespace sectionflow

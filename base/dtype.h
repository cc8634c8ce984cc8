#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bfloat16.h"
#include "base/export.h"

namespace SF_API sectionflow {

/// Element types of tensors. `boolean` is one byte, 0 or 1; `bf16` is BFloat16.
enum class Dtype : std::uint8_t { f32, f64, i32, i64, u8, boolean, bf16 };

/// Bytes of one element.
std::size_t dtype_bytes(Dtype dtype);

/// "f32", "i64", "bool", ...
std::string_view dtype_name(Dtype dtype);

/// Whether elements are floating point numbers: f32, f64 or bf16.
bool is_floating(Dtype dtype);

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

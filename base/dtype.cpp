#include "base/dtype.h"

#include "base/error.h"

namespace sectionflow {
namespace {

[[noreturn]] void refuse(Dtype dtype) {
  throw ArgumentError(text_of("the dtype ", static_cast<int>(dtype),
                              " is none; wanted f32, f64, i32, i64, u8, boolean, bf16 or i8 of Dtype"));
}

}  // namespace

bool is_dtype(Dtype dtype) {
  return dtype <= Dtype::i8;
}

std::size_t dtype_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::i32:
      return 4;
    case Dtype::f64:
    case Dtype::i64:
      return 8;
    case Dtype::bf16:
      return 2;
    case Dtype::u8:
    case Dtype::boolean:
    case Dtype::i8:
      return 1;
  }
  refuse(dtype);
}

std::string_view dtype_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return "f32";
    case Dtype::f64:
      return "f64";
    case Dtype::i32:
      return "i32";
    case Dtype::i64:
      return "i64";
    case Dtype::u8:
      return "u8";
    case Dtype::boolean:
      return "bool";
    case Dtype::bf16:
      return "bf16";
    case Dtype::i8:
      return "i8";
  }
  refuse(dtype);
}

bool is_floating(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::bf16;
}

}  // namespace sectionflow

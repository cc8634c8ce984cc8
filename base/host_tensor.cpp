#include "base/host_tensor.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/checked_arithmetic.h"

namespace sectionflow {

std::size_t TensorType::bytes() const {
  return static_cast<std::size_t>(
      checked_multiply(shape.num_elements(), static_cast<std::int64_t>(dtype_bytes(dtype))));
}

std::string TensorType::text() const {
  return std::string(dtype_name(dtype)) + shape.text();
}

HostTensor::HostTensor(TensorType type) : type_(std::move(type)), num_bytes_(type_.bytes()) {
  // One byte at least, so that an empty tensor has an address too.
  const std::size_t allocated = num_bytes_ > 0 ? num_bytes_ : 1;
  bytes_.reset(static_cast<std::byte*>(::operator new[](allocated, std::align_val_t{64})), Free());
  std::memset(bytes_.get(), 0, allocated);
}

HostTensor::HostTensor(TensorType type, std::shared_ptr<std::byte[]> bytes)
    : type_(std::move(type)), num_bytes_(type_.bytes()) {
  SF_CHECK(bytes != nullptr, ArgumentError, "a tensor ", type_.text(), " was given no bytes; wanted ", num_bytes_);
  SF_CHECK(reinterpret_cast<std::uintptr_t>(bytes.get()) % 64 == 0, ArgumentError, "a tensor ", type_.text(),
           " was given bytes at ", static_cast<const void*>(bytes.get()), "; wanted an address that 64 divides");
  bytes_ = std::move(bytes);
}

HostTensor HostTensor::clone() const {
  HostTensor copy(type_);
  if (num_bytes_ > 0) std::memcpy(copy.bytes(), bytes(), num_bytes_);
  return copy;
}

void HostTensor::check_dtype(Dtype wanted) const {
  SF_CHECK(type_.dtype == wanted, ArgumentError, "values of a tensor ", type_.text(), " asked for as ",
           dtype_name(wanted));
}

namespace {

/// "[1,0]": the place of an element of a row-major tensor.
std::string place_of(std::int64_t element, const Shape& shape) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[static_cast<std::size_t>(axis)] = element % shape[axis];
    element /= shape[axis];
  }
  return Shape(place).text();
}

std::string number_text(Dtype dtype, const std::byte* bytes) {
  char text[64] = "";
  const auto as = [bytes]<class T>(T value) {
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  };
  switch (dtype) {
    case Dtype::f32:
      std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(as(0.0F)));
      break;
    case Dtype::bf16:
      std::snprintf(text, sizeof(text), "%.4g", static_cast<double>(as(BFloat16())));
      break;
    case Dtype::f64:
      std::snprintf(text, sizeof(text), "%.17g", as(0.0));
      break;
    case Dtype::i32:
      std::snprintf(text, sizeof(text), "%d", as(std::int32_t{0}));
      break;
    case Dtype::i64:
      std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(as(std::int64_t{0})));
      break;
    case Dtype::i8:
      std::snprintf(text, sizeof(text), "%d", static_cast<int>(as(std::int8_t{0})));
      break;
    case Dtype::u8:
    case Dtype::boolean:
      std::snprintf(text, sizeof(text), "%d", static_cast<int>(as(std::uint8_t{0})));
      break;
  }
  return text;
}

/// "1.5 (0x3fc00000)"
std::string element_text(Dtype dtype, const std::byte* bytes) {
  std::string hex;
  // The machine is little-endian: the last byte is the highest.
  for (std::size_t i = dtype_bytes(dtype); i > 0; --i) {
    char digits[8];
    std::snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned>(bytes[i - 1]));
    hex += digits;
  }
  return text_of(number_text(dtype, bytes), " (0x", hex, ")");
}

}  // namespace

std::string first_difference(const HostTensor& a, const HostTensor& b) {
  if (a.type() != b.type()) return text_of("types ", a.type().text(), " and ", b.type().text());
  const std::size_t width = dtype_bytes(a.dtype());
  for (std::int64_t element = 0; element < a.num_elements(); ++element) {
    const std::byte* of_a = a.bytes() + static_cast<std::size_t>(element) * width;
    const std::byte* of_b = b.bytes() + static_cast<std::size_t>(element) * width;
    if (std::memcmp(of_a, of_b, width) == 0) continue;
    return text_of("at element ", place_of(element, a.shape()), ": ", element_text(a.dtype(), of_a), " and ",
                   element_text(a.dtype(), of_b));
  }
  return "";
}

bool bitwise_equal(const HostTensor& a, const HostTensor& b) {
  return a.type() == b.type() && (a.num_bytes() == 0 || std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0);
}

}  // namespace sectionflow

#include "base/host_tensor.h"

#include <cstring>
#include <new>

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
  bytes_.reset(static_cast<std::byte*>(::operator new[](allocated, std::align_val_t{64})));
  std::memset(bytes_.get(), 0, allocated);
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

bool bitwise_equal(const HostTensor& a, const HostTensor& b) {
  return a.type() == b.type() && (a.num_bytes() == 0 || std::memcmp(a.bytes(), b.bytes(), a.num_bytes()) == 0);
}

}  // namespace sectionflow

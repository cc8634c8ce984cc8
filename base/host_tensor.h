#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/export.h"
#include "base/shape.h"

namespace SF_API sectionflow {

/// Dtype and shape of a tensor, without its data.
struct TensorType {
  Dtype dtype = Dtype::f32;
  Shape shape;

  /// Bytes of all elements. Throws: ShapeError when the shape has an unknown dimension or the size overflows.
  std::size_t bytes() const;
  /// "f32[250,10]"
  std::string text() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// A dense, row-major tensor that somebody else owns.
struct TensorView {
  TensorType type;
  const void* data = nullptr;

  template <class T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
};

/// A dense, row-major tensor in host memory. Owns: its bytes, aligned to 64, which it shares with the feeds that were
/// made of it and with nobody else. Move-only; `clone()` copies, to memory of its own.
class HostTensor {
 public:
  HostTensor() = default;
  /// Zero-filled. Throws: ShapeError when the shape has an unknown dimension.
  explicit HostTensor(TensorType type);
  HostTensor(Dtype dtype, Shape shape) : HostTensor(TensorType{dtype, std::move(shape)}) {}
  /// In memory that somebody lends: the values are what the bytes are. There are as many as the type wants, or more;
  /// the pointer's deleter gives them back once neither a tensor nor a feed has them, on whatever thread lets go last.
  /// Throws: ShapeError when the shape has an unknown dimension; ArgumentError for no bytes, and for bytes that are not
  /// aligned to 64.
  HostTensor(TensorType type, std::shared_ptr<std::byte[]> bytes);
  HostTensor(HostTensor&&) noexcept = default;
  HostTensor& operator=(HostTensor&&) noexcept = default;

  /// A tensor of the given values. Throws: ShapeError when their number is not that of the shape.
  template <class T>
  static HostTensor of(Shape shape, const std::vector<T>& values);
  /// A scalar.
  template <class T>
  static HostTensor scalar(T value);

  HostTensor clone() const;

  const TensorType& type() const { return type_; }
  Dtype dtype() const { return type_.dtype; }
  const Shape& shape() const { return type_.shape; }
  std::int64_t num_elements() const { return type_.shape.num_elements(); }
  std::size_t num_bytes() const { return num_bytes_; }

  std::byte* bytes() { return bytes_.get(); }
  const std::byte* bytes() const { return bytes_.get(); }
  TensorView view() const { return {type_, bytes_.get()}; }
  /// The bytes, for who must have them for longer than this tensor may live.
  std::shared_ptr<const std::byte[]> shared_bytes() const { return bytes_; }

  /// The elements. Throws: ArgumentError when `T` is not the dtype's type.
  template <class T>
  std::span<T> values() {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(bytes_.get()), num_bytes_ / sizeof(T)};
  }
  template <class T>
  std::span<const T> values() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<const T*>(bytes_.get()), num_bytes_ / sizeof(T)};
  }
  /// The only element. Throws: ShapeError when there is not exactly one, ArgumentError for another dtype.
  template <class T>
  T item() const {
    SF_CHECK(num_elements() == 1, ShapeError, "item() of a tensor ", type_.text(), "; wanted exactly one element");
    return values<T>()[0];
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{64}); }
  };
  void check_dtype(Dtype wanted) const;

  TensorType type_{Dtype::f32, Shape{0}};
  std::size_t num_bytes_ = 0;
  std::shared_ptr<std::byte[]> bytes_;
};

/// Same dtype, same shape and the same bytes (so NaN equals itself, and +0 differs from -0).
bool bitwise_equal(const HostTensor& a, const HostTensor& b);
/// Where two tensors first differ, the elements in hexadecimal too: "at element [1,0]: 1.5 (0x3fc00000) and 2
/// (0x40000000)"; or their types, where those differ. Empty when they are bitwise equal.
std::string first_difference(const HostTensor& a, const HostTensor& b);

template <class T>
HostTensor HostTensor::of(Shape shape, const std::vector<T>& values) {
  HostTensor tensor(dtype_of<T>, std::move(shape));
  SF_CHECK(tensor.num_elements() == static_cast<std::int64_t>(values.size()), ShapeError, "HostTensor::of got ",
           values.size(), " values for the shape ", tensor.shape());
  auto out = tensor.values<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return tensor;
}

template <class T>
HostTensor HostTensor::scalar(T value) {
  HostTensor tensor(dtype_of<T>, Shape{});
  tensor.values<T>()[0] = value;
  return tensor;
}

}  // namespace sectionflow

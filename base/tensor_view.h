#pragma once

#include <cstddef>

#include "base/dtype.h"
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

}  // namespace sectionflow

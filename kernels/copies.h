#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/host_tensor.h"
#include "kernels/strides.h"

namespace sectionflow {

/// Elements of 16 bytes, for moving alone.
struct alignas(16) Bytes16 {
  std::uint64_t low, high;
};

/// `visit(T{})` for a type of `num_bytes` that is moved without being looked at.
template <class Visit>
decltype(auto) with_element_of(std::size_t num_bytes, Visit&& visit) {
  switch (num_bytes) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    case 4:
      return visit(std::uint32_t{});
    case 8:
      return visit(std::uint64_t{});
    case 16:
      return visit(Bytes16{});
    default:
      throw InternalError(text_of("with_element_of: no element of ", num_bytes, " bytes"));
  }
}

/// The step, in elements, for each dimension of a dense tensor.
inline std::vector<std::int64_t> dense_strides(const Shape& shape) {
  return kept_strides(shape, std::vector<bool>(static_cast<std::size_t>(shape.rank()), false));
}

/// A tensor of the shape `y` read out of another: element (i, j, ...) is element first + i strides[0] + j strides[1] +
/// ... of x, which has `num_x_elements` elements of `element_bytes`.
struct StridedCopy {
  std::size_t element_bytes = 0;
  Shape y{};
  std::vector<std::int64_t> strides{};
  std::int64_t first = 0;
  std::int64_t num_x_elements = 0;

  /// Whether every element of x is copied to its own place.
  bool changes_nothing() const {
    if (num_x_elements != y.num_elements()) return false;
    const std::vector<std::int64_t> dense = dense_strides(y);
    for (int axis = 0; axis < y.rank(); ++axis) {
      if (y[axis] != 1 && strides[axis] != dense[axis]) return false;
    }
    return first == 0;
  }
};

/// The box of x that begins at `begin`, one number an axis.
inline StridedCopy box_of(const TensorType& x, const std::vector<std::int64_t>& begin, const Shape& y) {
  StridedCopy copy{.element_bytes = dtype_bytes(x.dtype),
                   .y = y,
                   .strides = dense_strides(x.shape),
                   .num_x_elements = x.shape.num_elements()};
  for (std::size_t axis = 0; axis < begin.size(); ++axis) copy.first += begin[axis] * copy.strides[axis];
  return copy;
}

/// x as a box within y, whose other elements are one value: pad, and the gradient of slice.
struct BorderedCopy {
  TensorType y{};
  Shape x{};
  std::vector<std::int64_t> before{};  ///< one an axis: where x begins
  double value = 0;
};

/// The axes of such a copy, at least one. An axis without border is one with the axis outside it.
struct BorderedAxes {
  struct Axis {
    std::int64_t y_dim = 1, x_dim = 1, before = 0;
  };
  int rank = 0;
  Axis axes[Shape::kMaxRank] = {};

  explicit BorderedAxes(const BorderedCopy& copy) {
    for (int i = 0; i < copy.y.shape.rank(); ++i) {
      const Axis axis{copy.y.shape[i], copy.x[i], copy.before[i]};
      if (rank > 0 && axis.y_dim == axis.x_dim) {
        Axis& outer = axes[rank - 1];
        outer = {outer.y_dim * axis.y_dim, outer.x_dim * axis.x_dim, outer.before * axis.y_dim};
      } else {
        axes[rank++] = axis;
      }
    }
    if (rank == 0) rank = 1;
  }
};

}  // namespace sectionflow

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/shape.h"

namespace sectionflow {

/// The step in `operand`, in elements, for each dimension of `out`: 0 where the operand is repeated.
/// Shapes: operand broadcasts to out.
std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& out);

/// The step for each dimension of a tensor of shape `x` in a dense tensor of x's dimensions that are not `reduced`.
std::vector<std::int64_t> kept_strides(const Shape& x, const std::vector<bool>& reduced);

/// The dimensions of a dense tensor beside the steps that `kOperands` others take along them, in elements.
///
/// Dimensions that lie as one in the tensor and in every operand are merged, so that equal shapes, a scalar and a
/// trailing vector become one or two long ones. There is at least one.
template <int kOperands>
struct MergedAxes {
  using Offsets = std::array<std::int64_t, kOperands>;
  struct Axis {
    std::int64_t dim = 1;
    Offsets strides{};
  };

  MergedAxes(const Shape& shape, const std::array<std::vector<std::int64_t>, kOperands>& strides);

  const Axis& last() const { return axes[rank - 1]; }

  std::int64_t num_elements = 1;
  int rank = 0;
  std::array<Axis, Shape::kMaxRank> axes{};

 private:
  static bool merges(const Axis& outer, const Axis& inner) {
    for (int k = 0; k < kOperands; ++k) {
      if (outer.strides[k] != inner.strides[k] * inner.dim) return false;
    }
    return true;
  }
};

template <int kOperands>
MergedAxes<kOperands>::MergedAxes(const Shape& shape, const std::array<std::vector<std::int64_t>, kOperands>& strides)
    : num_elements(shape.num_elements()) {
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], {}};
    for (int k = 0; k < kOperands; ++k) axis.strides[k] = strides[k][i];
    if (rank > 0 && merges(axes[rank - 1], axis)) {
      axis.dim *= axes[rank - 1].dim;
      axes[rank - 1] = axis;
    } else {
      axes[rank++] = axis;
    }
  }
  if (rank == 0) {
    axes[0].strides.fill(1);
    rank = 1;
  }
}

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "base/tensor_view.h"

namespace sectionflow {

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

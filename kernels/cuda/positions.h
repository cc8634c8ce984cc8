#pragma once

#include <algorithm>
#include <cstdint>

#include "base/shape.h"
#include "kernels/cuda/divisor.h"
#include "kernels/merged_axes.h"
#include "kernels/reduce_axes.h"

namespace sectionflow::gpu {

/// Where the elements of `kOperands` tensors lie for a position in some dimensions, counted in row-major order.
template <int kOperands>
struct Positions {
  Positions() = default;
  explicit Positions(const MergedAxes<kOperands>& merged) : rank(merged.rank) {
    for (int i = 0; i < rank; ++i) {
      dims[i] = Divisor(merged.axes[i].dim);
      for (int k = 0; k < kOperands; ++k) strides[i][k] = merged.axes[i].strides[k];
    }
  }
  explicit Positions(const ReduceAxes::Index& index) : rank(index.rank) {
    static_assert(kOperands == 1);
    for (int i = 0; i < rank; ++i) {
      dims[i] = Divisor(index.dims[rank - 1 - i]);
      strides[i][0] = index.strides[rank - 1 - i];
    }
  }

  SF_HOST_DEVICE void offsets_of(std::int64_t position, std::int64_t (&offsets)[kOperands]) const {
    for (int k = 0; k < kOperands; ++k) offsets[k] = 0;
    for (int i = rank - 1; i >= 0; --i) {
      // The outermost needs no division.
      const std::int64_t along = i > 0 ? dims[i].cut(position) : position;
      for (int k = 0; k < kOperands; ++k) offsets[k] += along * strides[i][k];
    }
  }
  SF_HOST_DEVICE std::int64_t offset_of(std::int64_t position) const {
    static_assert(kOperands == 1);
    std::int64_t offsets[1];
    offsets_of(position, offsets);
    return offsets[0];
  }

  int rank = 0;
  Divisor dims[Shape::kMaxRank];                     // outermost first
  std::int64_t strides[Shape::kMaxRank][kOperands];  // set up to rank
};

}  // namespace sectionflow::gpu

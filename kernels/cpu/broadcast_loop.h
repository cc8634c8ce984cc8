#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/shape.h"
#include "device/parallel.h"
#include "kernels/strides.h"

namespace sectionflow {

/// A walk over a dense output in row-major order beside `kOperands` dense tensors that are repeated to its shape.
///
/// Dimensions that lie as one in the output and in every operand are merged, so that equal shapes, a scalar and a
/// trailing vector become long rows. Along a row an operand that is repeated has the step 0 or 1; one that is read with
/// strides of its own has any. Made with a kernel, walked at each launch.
template <int kOperands>
class BroadcastLoop {
 public:
  using Offsets = std::array<std::int64_t, kOperands>;

  BroadcastLoop(const Shape& out, const std::array<std::vector<std::int64_t>, kOperands>& strides);

  /// Whether operand `k` stays at one element along a row.
  bool repeats_in_row(int k) const { return step_in_row(k) == 0; }
  /// Operand `k`'s step along a row, in elements.
  std::int64_t step_in_row(int k) const { return axes_[rank_ - 1].strides[k]; }

  /// Calls `row(begin, count, offsets)` for pieces of rows that together cover the output, on the compute team: output
  /// elements [begin, begin + count) belong to operand elements from `offsets` on.
  template <class Row>
  void for_each_row(const Row& row) const {
    parallel_for(num_elements_, kParallelGrain, [&](std::int64_t begin, std::int64_t end) { walk(begin, end, row); });
  }

 private:
  struct Axis {
    std::int64_t dim = 1;
    Offsets strides{};
  };
  using Position = std::array<std::int64_t, Shape::kMaxRank>;

  bool merges(const Axis& outer, const Axis& inner) const;
  template <class Row>
  void walk(std::int64_t begin, std::int64_t end, const Row& row) const;
  void next_row(Position& position, Offsets& offsets) const;

  std::int64_t num_elements_ = 1;
  int rank_ = 0;
  std::array<Axis, Shape::kMaxRank> axes_{};
};

template <int kOperands>
BroadcastLoop<kOperands>::BroadcastLoop(const Shape& out,
                                        const std::array<std::vector<std::int64_t>, kOperands>& strides)
    : num_elements_(out.num_elements()) {
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] == 1) continue;
    Axis axis{out[i], {}};
    for (int k = 0; k < kOperands; ++k) axis.strides[k] = strides[k][i];
    if (rank_ > 0 && merges(axes_[rank_ - 1], axis)) {
      axis.dim *= axes_[rank_ - 1].dim;
      axes_[rank_ - 1] = axis;
    } else {
      axes_[rank_++] = axis;
    }
  }
  if (rank_ == 0) {
    axes_[0].strides.fill(1);
    rank_ = 1;
  }
}

template <int kOperands>
bool BroadcastLoop<kOperands>::merges(const Axis& outer, const Axis& inner) const {
  for (int k = 0; k < kOperands; ++k) {
    if (outer.strides[k] != inner.strides[k] * inner.dim) return false;
  }
  return true;
}

template <int kOperands>
template <class Row>
void BroadcastLoop<kOperands>::walk(std::int64_t begin, std::int64_t end, const Row& row) const {
  Position position{};
  Offsets offsets{};
  std::int64_t rest = begin;
  for (int i = rank_ - 1; i >= 0; --i) {
    position[i] = rest % axes_[i].dim;
    rest /= axes_[i].dim;
    for (int k = 0; k < kOperands; ++k) offsets[k] += position[i] * axes_[i].strides[k];
  }
  const Axis& last = axes_[rank_ - 1];
  while (begin < end) {
    const std::int64_t count = std::min(last.dim - position[rank_ - 1], end - begin);
    row(begin, count, offsets);
    begin += count;
    // Back to the start of this row; a piece that ends inside a row is the last.
    for (int k = 0; k < kOperands; ++k) offsets[k] -= position[rank_ - 1] * last.strides[k];
    position[rank_ - 1] = 0;
    next_row(position, offsets);
  }
}

template <int kOperands>
void BroadcastLoop<kOperands>::next_row(Position& position, Offsets& offsets) const {
  for (int i = rank_ - 2; i >= 0; --i) {
    for (int k = 0; k < kOperands; ++k) offsets[k] += axes_[i].strides[k];
    if (++position[i] < axes_[i].dim) return;
    for (int k = 0; k < kOperands; ++k) offsets[k] -= axes_[i].dim * axes_[i].strides[k];
    position[i] = 0;
  }
}

}  // namespace sectionflow

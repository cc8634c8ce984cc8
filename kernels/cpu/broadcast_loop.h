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
/// Along a row of the merged axes an operand that is repeated has the step 0 or 1; one that is read with strides of its
/// own has any. Made with a kernel, walked at each launch.
template <int kOperands>
class BroadcastLoop {
 public:
  using Offsets = std::array<std::int64_t, kOperands>;

  BroadcastLoop(const Shape& out, const std::array<std::vector<std::int64_t>, kOperands>& strides)
      : merged_(out, strides) {}

  /// Whether operand `k` stays at one element along a row.
  bool repeats_in_row(int k) const { return step_in_row(k) == 0; }
  /// Operand `k`'s step along a row, in elements.
  std::int64_t step_in_row(int k) const { return merged_.last().strides[k]; }

  /// Calls `row(begin, count, offsets)` for pieces of rows that together cover the output, on the compute team: output
  /// elements [begin, begin + count) belong to operand elements from `offsets` on.
  template <class Row>
  void for_each_row(const Row& row) const {
    parallel_for(merged_.num_elements, kParallelGrain,
                 [&](std::int64_t begin, std::int64_t end) { walk(begin, end, row); });
  }

 private:
  using Axis = typename MergedAxes<kOperands>::Axis;
  using Position = std::array<std::int64_t, Shape::kMaxRank>;

  template <class Row>
  void walk(std::int64_t begin, std::int64_t end, const Row& row) const;
  void next_row(Position& position, Offsets& offsets) const;

  MergedAxes<kOperands> merged_;
};

template <int kOperands>
template <class Row>
void BroadcastLoop<kOperands>::walk(std::int64_t begin, std::int64_t end, const Row& row) const {
  const int rank = merged_.rank;
  const auto& axes = merged_.axes;
  Position position{};
  Offsets offsets{};
  std::int64_t rest = begin;
  for (int i = rank - 1; i >= 0; --i) {
    position[i] = rest % axes[i].dim;
    rest /= axes[i].dim;
    for (int k = 0; k < kOperands; ++k) offsets[k] += position[i] * axes[i].strides[k];
  }
  const Axis& last = merged_.last();
  while (begin < end) {
    const std::int64_t count = std::min(last.dim - position[rank - 1], end - begin);
    row(begin, count, offsets);
    begin += count;
    // Back to the start of this row; a piece that ends inside a row is the last.
    for (int k = 0; k < kOperands; ++k) offsets[k] -= position[rank - 1] * last.strides[k];
    position[rank - 1] = 0;
    next_row(position, offsets);
  }
}

template <int kOperands>
void BroadcastLoop<kOperands>::next_row(Position& position, Offsets& offsets) const {
  const auto& axes = merged_.axes;
  for (int i = merged_.rank - 2; i >= 0; --i) {
    for (int k = 0; k < kOperands; ++k) offsets[k] += axes[i].strides[k];
    if (++position[i] < axes[i].dim) return;
    for (int k = 0; k < kOperands; ++k) offsets[k] -= axes[i].dim * axes[i].strides[k];
    position[i] = 0;
  }
}

}  // namespace sectionflow

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/shape.h"

namespace sectionflow {

/// A dense tensor that is reduced over some of its dimensions, with neighbouring dimensions of one kind merged. The
/// last of what remains is the **row**: either rows are reduced (each belongs to one result), or they are kept (each
/// adds to as many results as it is long).
struct ReduceAxes {
  /// Positions in some of the dimensions, counted in row-major order; the innermost dimension comes first.
  struct Index {
    int rank = 0;
    std::int64_t count = 1;
    std::array<std::int64_t, Shape::kMaxRank> dims{}, strides{};

    std::int64_t offset_of(std::int64_t position) const;
  };

  ReduceAxes(const Shape& x, const std::vector<bool>& reduced);

  std::int64_t num_results() const { return kept.count * (row_is_reduced ? 1 : row_length); }
  /// Elements of x that make one result.
  std::int64_t num_reduced() const { return reduced.count * (row_is_reduced ? row_length : 1); }

  bool row_is_reduced = false;
  std::int64_t row_length = 1;
  Index kept, reduced;  ///< but for the row
};

}  // namespace sectionflow

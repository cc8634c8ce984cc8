#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/shape.h"
#include "graph/nodes/reduce.h"
#include "graph/ops/reduce.h"
#include "kernels/kernel.h"

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

    std::int64_t offset_of(std::int64_t position) const {
      std::int64_t offset = 0;
      // Innermost first; the outermost needs no division.
      for (int i = 0; i + 1 < rank; ++i) {
        offset += position % dims[i] * strides[i];
        position /= dims[i];
      }
      return rank > 0 ? offset + position * strides[rank - 1] : 0;
    }
  };

  ReduceAxes(const Shape& x, const std::vector<bool>& reduced);

  std::int64_t num_results() const { return kept.count * (row_is_reduced ? 1 : row_length); }
  /// Elements of x that make one result.
  std::int64_t num_reduced() const { return reduced.count * (row_is_reduced ? row_length : 1); }

  bool row_is_reduced = false;
  std::int64_t row_length = 1;
  Index kept, reduced;  ///< but for the row
};

/// Which axes of `x` the request's node reduces.
inline std::vector<bool> reduced_axes_of(const KernelRequest& request, const Shape& x) {
  return reduced_axes(request.node.options<ReduceNodeOptions>().reduce, x.rank(), request.node.label());
}

/// "reduce" from a room's plan, its kernel of sums that are divided, make_sum(plan, divisor), and those of maxima,
/// make_max(plan), and minima.
template <class Plan, auto make_sum, auto make_max, auto make_min>
std::unique_ptr<Kernel> make_reduce(const KernelRequest& request) {
  const Shape& x = request.inputs[0].shape;
  const Plan plan(x, reduced_axes_of(request, x));
  switch (request.node.options<ReduceNodeOptions>().reduction) {
    case Reduction::sum:
      return make_sum(plan, 1);
    case Reduction::mean:
      return make_sum(plan, static_cast<double>(plan.num_reduced()));
    case Reduction::max:
      return make_max(plan);
    case Reduction::min:
      return make_min(plan);
  }
  return nullptr;
}

}  // namespace sectionflow

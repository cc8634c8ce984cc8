#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Which part of a tensor slice takes.
struct SliceOptions {
  std::vector<std::int64_t> begin{};  ///< one an axis: the first element taken
  std::vector<std::int64_t> size{};   ///< one an axis: the number of elements; -1: all from there to the end
};

/// The part of x from `begin` on. Shapes: x any; result `size`, where a -1 gives x's dimension less `begin`, or an
/// unknown one if x's is. Any dtype. Throws: ShapeError for a part that leaves x.
Value slice(Value x, SliceOptions options, Where where = Where::here());

/// How much pad adds, and of what.
struct PadOptions {
  std::vector<std::int64_t> before{};  ///< one an axis: elements in front of x
  std::vector<std::int64_t> after{};   ///< one an axis: elements behind x
  double value = 0;                    ///< of the added elements, converted as by cast
};

/// x with a border of one value. Shapes: x any; result before + x + after, unknown where x is. Any dtype.
/// Throws: ShapeError unless `before` and `after` have a number >= 0 for each axis.
Value pad(Value x, PadOptions options, Where where = Where::here());

/// The values one behind the other along `axis`; negative axes count from the end.
/// Shapes: values alike but along `axis`, which they may leave unknown; the result has the sum there. Any dtype.
/// Throws: ArgumentError for no values and unequal dtypes, ShapeError.
Value concat(const std::vector<Value>& values, int axis, Where where = Where::here());
/// The values one behind the other along a new axis, which is axis `axis` of the result.
/// Shapes: values alike [...]; result [..., number of values, ...]. Any dtype. Throws: as concat.
Value stack(const std::vector<Value>& values, int axis, Where where = Where::here());

/// Cuts x along `axis` into parts of equal size, the outputs of one node: concat of them is x.
/// Shapes: x with a multiple of `parts` there, or an unknown number; results alike. Any dtype.
/// Throws: ArgumentError for parts < 1, ShapeError.
std::vector<Value> split(Value x, int parts, int axis, Where where = Where::here());
/// Cuts x along `axis` into parts of the given sizes, whose sum is x's.
std::vector<Value> split(Value x, std::vector<std::int64_t> sizes, int axis, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

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

/// Options of the ops "concat" and "stack".
struct ConcatOptions {
  int axis = 0;
  bool is_stack = false;  ///< the axis is a new one
};
/// The gradients of those of `values` that are wanted: parts of dy. Reads nothing of the values but their shapes.
std::vector<Value> concat_grad(Value dy, const std::vector<Value>& values, const ConcatOptions& options,
                               std::vector<bool> wanted);

/// Options of the op "split".
struct SplitOptions {
  int axis = 0;
  int parts = 0;                      ///< of equal size, where `sizes` are not given
  std::vector<std::int64_t> sizes{};  ///< one a part
};
/// dx of split from the gradients of its parts; a part without one (an invalid value) has zeros. Reads only the shape
/// of x.
Value split_grad(Value x, const std::vector<Value>& part_gradients, const SplitOptions& options);

/// Options of the op "concat_grad".
struct ConcatGradOptions {
  ConcatOptions concat;
  std::vector<bool> wanted;  ///< one a value; the outputs are the gradients of these
};
/// Options of the op "split_grad".
struct SplitGradOptions {
  SplitOptions split;
  std::vector<bool> given;  ///< one a part; the inputs behind x are the gradients of these
};

}  // namespace sectionflow

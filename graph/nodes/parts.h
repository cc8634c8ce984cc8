#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/ops/parts.h"

namespace SF_API sectionflow {

/// dx of slice: dy in its place, zeros elsewhere. Reads only the shape of x.
Value slice_grad(Value dy, Value x, const SliceOptions& options);
/// dx of pad: dy without the border. Reads only the shape of x.
Value pad_grad(Value dy, Value x, const PadOptions& options);

/// Options of the ops "concat" and "stack".
struct ConcatOptions {
  int axis = 0;
  bool is_stack = false;  ///< the axis is a new one
};
/// The gradients of those of `values` that are wanted: parts of dy. Reads nothing of the values but their shapes.
std::vector<Value> concat_grad(Value dy, const std::vector<Value>& values, const ConcatOptions& options,
                               std::vector<bool> wanted);

/// Options of the op "split".
struct SplitNodeOptions {
  int axis = 0;
  int parts = 0;                      ///< of equal size, where `sizes` are not given
  std::vector<std::int64_t> sizes{};  ///< one a part
};
/// dx of split from the gradients of its parts; a part without one (an invalid value) has zeros. Reads only the shape
/// of x.
Value split_grad(Value x, const std::vector<Value>& part_gradients, const SplitNodeOptions& options);

/// Options of the op "concat_grad".
struct ConcatGradOptions {
  ConcatOptions concat;
  std::vector<bool> wanted;  ///< one a value; the outputs are the gradients of these
};
/// Options of the op "split_grad".
struct SplitGradOptions {
  SplitNodeOptions split;
  std::vector<bool> given;  ///< one a part; the inputs behind x are the gradients of these
};

}  // namespace sectionflow

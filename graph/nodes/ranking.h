#pragma once

#include "base/export.h"
#include "graph/ops/ranking.h"

namespace SF_API sectionflow {

/// Options of the op "top_k".
struct TopKOptions {
  std::int64_t k = 1;
};

/// What stands for an element that a row does not have: options of the op "take_along".
struct TakeAlongOptions {
  bool missing_is_zero = false;  ///< not NaN
};

/// take_along under options: the gradient of take_along_grad has 0 where an index is out of range.
Value take_along(Value x, Value indices, TakeAlongOptions options, Where where = {});

/// dx: what dy has for each element of x, added in the order of the indices. Reads only the shape of x.
/// Shapes: dy like the indices; result like x. f32 or bf16.
Value take_along_grad(Value dy, Value indices, Value x);

}  // namespace sectionflow

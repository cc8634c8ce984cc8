#pragma once

#include <string>
#include <vector>

#include "base/export.h"
#include "graph/ops/layout.h"

namespace SF_API sectionflow {

/// x under the shape of `like`, of which nothing else is read: the gradient of reshape and flatten.
Value reshape_like(Value x, Value like);

/// Which sizes are one.
struct SameSizeOptions {
  int axis = 0, like_axis = 0;    ///< of x and of `like`; negative ones count from the end
  std::string what = "the size";  ///< begins errors: "index 'i' of 'x' and 'w'"
};

/// x, whose size along an axis is that of `like`: known, where either is, and where feeds decide it held to the other
/// then. Nothing is computed, copied, or read of `like` but its shape. Any dtypes. Throws: ShapeError, now and when
/// sizes are fed.
Value same_size(Value x, Value like, SameSizeOptions options);

/// Options of the op "reshape".
struct ReshapeOptions {
  Shape shape;
};

/// Options of the op "transpose".
struct TransposeOptions {
  std::vector<int> permutation;
};

/// The permutation with its axes counted from the front. Throws: ShapeError (starting with `label`) unless each of
/// `rank` axes is named once.
std::vector<int> normalized_permutation(const std::vector<int>& permutation, int rank, const std::string& label);

/// x repeated to the shape of `like`, of which nothing else is read: the gradient of a sum over what was repeated.
/// Shapes: x that broadcasts to `like`; result like it. Any dtype. Throws: ShapeError.
Value broadcast_like(Value x, Value like);

/// Options of the op "broadcast_to".
struct BroadcastToOptions {
  Shape shape;
};

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How much pad adds, and of what.
struct PadOptions {
  std::vector<std::int64_t> before{};  ///< one an axis: elements in front of x
  std::vector<std::int64_t> after{};   ///< one an axis: elements behind x
  double value = 0;                    ///< of the added elements, converted as by cast
};

/// x with a border of one value. Shapes: x any; result before + x + after, unknown where x is. Any dtype.
/// Throws: ShapeError unless `before` and `after` have a number >= 0 for each axis.
Value pad(Value x, PadOptions options, Where where = Where::here());
/// dx of pad: dy without the border. Reads only the shape of x.
Value pad_grad(Value dy, Value x, const PadOptions& options);

}  // namespace sectionflow

#pragma once

#include <cstdint>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How many classes one_hot tells apart.
struct OneHotOptions {
  std::int64_t depth = 0;  ///< number of classes; must be set
  float on_value = 1;      ///< at the index
  float off_value = 0;     ///< elsewhere
};

/// A row for each index: on_value at it, off_value elsewhere. An index outside [0, depth) gives a row of off_value.
/// Shapes: indices [...] i32 or i64; result [..., depth] f32. No gradient. Throws: ArgumentError for other dtypes and
/// depth < 1.
Value one_hot(Value indices, OneHotOptions options, Where where = Where::here());

}  // namespace sectionflow

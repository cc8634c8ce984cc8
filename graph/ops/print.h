#pragma once

#include <string>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What print says of a tensor.
struct PrintOptions {
  std::string label{};  ///< in front of the values; empty: the name of x
  int first = 8;        ///< how many values are logged
};

/// y = x; logs the label, the type and the first values, once per cycle: a recomputation passes x through in silence.
/// Shapes: any dtype; y like x. The gradient passes.
Value print(Value x, PrintOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

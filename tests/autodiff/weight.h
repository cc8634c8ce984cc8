#pragma once

#include <string_view>
#include <utility>

#include "graph/ops/basic.h"

namespace sectionflow::testing_support {

/// A trainable variable of ones.
inline Value weight(Graph& graph, std::string_view name, Shape shape) {
  return variable(name, fill(graph, std::move(shape), 1));
}

}  // namespace sectionflow::testing_support

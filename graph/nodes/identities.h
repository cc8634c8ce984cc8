#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/export.h"
#include "graph/ops/identities.h"

namespace SF_API sectionflow {

/// Options of the op "custom_gradient", whose inputs are what was computed, y, and what it was computed from. Files
/// keep the node, which is y itself, and not the function: a graph that comes from one has the gradients that it was
/// saved with, and none can be made through the node again.
struct CustomGradientOptions {
  struct Backward {
    BackwardFunction function;
    bool is_asked = false;  ///< it is being called
  };
  std::shared_ptr<Backward> backward;  ///< none: it came from a file
};

}  // namespace sectionflow

#pragma once

#include "autodiff/gradient_registry.h"

namespace sectionflow {

/// Moves the rules of a family into gradient_registry(): for register_family, which has checked them.
void take_gradients(GradientRegistry& family) noexcept;

}  // namespace sectionflow

#pragma once

#include <string>

#include "autodiff/gradient_registry.h"

namespace sectionflow {

/// The rules of both pools of `dimensions`, "2d" or "3d", and of the ops of their gradients.
void add_pool_gradients(GradientRegistry& registry, const std::string& dimensions);

}  // namespace sectionflow

#pragma once

#include <string>

#include "autodiff/gradient_registry.h"

namespace sectionflow {

/// The rules of the op `name` ("conv2d", "conv3d") and of the two ops of its gradients.
void add_convolution_gradients(GradientRegistry& registry, const std::string& name);

}  // namespace sectionflow

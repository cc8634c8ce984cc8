#pragma once

#include <string_view>

#include "autodiff/gradient_registry.h"

namespace sectionflow {

/// Some gradient ops read what the forward op left of the same x: their rules count its dependence on x in the gradient
/// of x. Throws: ArgumentError (SF-E031) unless input `statistics` is an output of a node of op `forward` whose first
/// inputs are the inputs from `first` on, `count` of them.
void check_own_statistics(const GradientRequest& request, int statistics, std::string_view forward, int first,
                          int count = 1);

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/ops/random.h"

namespace SF_API sectionflow {

/// What the op "random" draws from.
enum class Distribution { normal, truncated_normal, uniform };
/// Options of the op "random".
struct RandomOptions {
  Distribution distribution = Distribution::normal;
  Shape shape;
  float a = 0;  ///< mean, or low
  float b = 1;  ///< standard deviation, or high
};

}  // namespace sectionflow

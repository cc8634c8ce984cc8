#pragma once

#include "base/export.h"
#include "graph/ops/random.h"

namespace SF_API sectionflow {

/// What the ops "random" and "random_like" draw from.
enum class Distribution { normal, truncated_normal, uniform, gumbel };
/// Options of the op "random".
struct RandomOptions {
  Distribution distribution = Distribution::normal;
  Shape shape;
  float a = 0;  ///< mean, or low
  float b = 1;  ///< standard deviation, or high
};
/// Options of the op "random_like", as those of "random".
struct RandomLikeOptions {
  Distribution distribution = Distribution::normal;
  float a = 0;
  float b = 1;
};

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/ops/scatter.h"

namespace SF_API sectionflow {

/// What becomes of elements of one place.
enum class Scattering { add, max };

/// Options of the op "scatter".
struct ScatterOptions {
  Scattering scattering = Scattering::add;
};

}  // namespace sectionflow

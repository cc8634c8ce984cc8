#pragma once

#include "base/export.h"
#include "graph/ops/scan.h"

namespace SF_API sectionflow {

/// Options of the op "cumsum".
struct CumsumNodeOptions {
  int axis = 0;
  CumsumOptions sums{};
};

}  // namespace sectionflow

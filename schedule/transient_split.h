#pragma once

#include <cstddef>

#include "schedule/liveness.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// What the transient bytes of a program are made of. A section's **run** is a stretch of passes of one section: its
/// forward pass, or its recomputation and backward pass.
struct TransientSplit {
  std::size_t border_bytes = 0;   ///< the largest sum, at any step, of what lives in more than one run
  std::size_t section_bytes = 0;  ///< the largest sum, at any step, of what lives in one run alone
};

/// No plan of these lives needs more than both together, but for what the placement wastes. Sizes are rounded up to
/// kBufferAlignment, as the plan's are.
TransientSplit split_transient(const Schedule& schedule, const StorageAssignment& storage);

}  // namespace sectionflow

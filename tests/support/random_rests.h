#pragma once

#include <cstdint>
#include <vector>

#include "runtime/insert_rests.h"
#include "runtime/planning_tools.h"

namespace sectionflow::testing_support {

/// A stretch of a script in which a device buffer lies idle: behind the line that used it last, up to the line that
/// uses it next.
struct IdleStretch {
  Value value;
  int begin = 0;  ///< "before this line" the value may leave
  int end = 0;    ///< the line that reads it again
  std::size_t bytes = 0;
};

/// All stretches of at least one line between two uses of a buffer, in the order of buffers and lines.
std::vector<IdleStretch> idle_stretches(const Draft& draft);

/// Has idle values rest elsewhere, at random by the seed: about `share` of all stretches, from and to random lines,
/// some of them on disk if that is allowed.
Script rest_at_random(const Script& script, PlanningTools& tools, std::uint64_t seed, double share, bool disk);

}  // namespace sectionflow::testing_support

#pragma once

#include <string>

#include "base/export.h"
#include "graph/node.h"

namespace SF_API sectionflow {

/// A stretch of a schedule with a name: "forward 0", "backward 2". `section` is kNoGroup outside of sections.
struct Pass {
  /// What a stretch does; `recompute` is a forward run again.
  enum class Kind { forward, recompute, backward, whole };
  Kind kind = Kind::whole;
  GroupId section = kNoGroup;

  std::string text() const;
};

/// `hold` does nothing but keep a value, or its copy in host memory, alive up to its instruction. The last four carry
/// bytes between tiers: device to host, host to disk, disk to host, host to device.
enum class StepKind { feed, compute, fetch, hold, copy_out, disk_write, disk_read, copy_in };

/// A queue of steps that are executed one after the other; lanes run beside each other.
enum class Lane { compute, copy_out, copy_in, disk_out, disk_in, communicate };
inline constexpr int kNumLanes = 6;

/// "compute", "copy out", ...
const char* lane_name(Lane lane);
/// Whether the step carries bytes between tiers.
bool is_transfer(StepKind kind);

}  // namespace sectionflow

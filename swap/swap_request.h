#pragma once

#include <functional>

#include "base/export.h"
#include "schedule/idle_stretches.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// Where a value spends an idle stretch: wherever the planner finds best, or on the device, or in host memory, or on
/// disk.
enum class Placement { automatic, keep, host, disk };

/// What insert_swaps is asked for.
struct SwapRequest {
  std::function<Placement(const IdleStretch&)> placement{};  ///< absent: automatic for all
  /// The first instruction before which the value may come back to the device; absent: the planner's choice. Where it
  /// is asked, instructions before the stretch count as its first, and instructions behind it as its last.
  std::function<int(const IdleStretch&)> earliest_return{};
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
};

}  // namespace sectionflow

#pragma once

#include <vector>

#include "base/export.h"
#include "runtime/trace.h"

namespace SF_API sectionflow {

/// What copies between tiers took of the time of the cycles in a trace.
struct SwapTimes {
  double copy_seconds = 0;     ///< all copies between tiers, those to and from the disk included, added up
  double stall_seconds = 0;    ///< in which the compute lane did not compute because of them
  double hidden_share = 0;     ///< of the copies' time that cost none: 1 - stall / copy, from 0 to 1; 0 without copies
  double compute_seconds = 0;  ///< in which the compute lane did its own work
  double cycle_seconds = 0;    ///< from the first step of a cycle to the end of its last, all cycles added up
};

/// Between two steps the compute lane does little; a longer gap than this is a wait.
inline constexpr double kSmallestStallUs = 50;

/// Stall is: copies that the compute lane carries itself; gaps of more than `smallest_stall_us` between its steps of
/// one cycle; and the time from its last step to the end of the last copy, since a cycle is over when all lanes are. A
/// trace without copies has no stall, whatever interrupts it.
SwapTimes swap_times(const std::vector<Trace::Event>& events, double smallest_stall_us = kSmallestStallUs);

}  // namespace sectionflow

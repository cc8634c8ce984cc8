#pragma once

#include <functional>
#include <optional>

#include "base/export.h"
#include "runtime/idle_stretches.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// Where a value spends an idle stretch: wherever the planner finds best, or on the device, or in host memory, or on
/// disk.
enum class Placement { automatic, keep, host, disk };

/// What insert_swaps is asked for.
struct SwapRequest {
  std::function<Placement(const IdleStretch&)> placement{};  ///< absent: automatic for all
  /// The first line of the script before which the value may come back to the device; absent: the planner's choice.
  /// Where it is asked, lines before the stretch count as its first, and lines behind it as its last.
  std::function<int(const IdleStretch&)> earliest_return{};
  const Profile* profile = nullptr;  ///< nullptr: Profile::nominal()
};

/// Has values rest in host memory, and on disk where that is full, so that the program fits the budgets of all tiers,
/// and loses as little time as the profile lets expect. Automatic stretches rest only where the budgets want it; forced
/// ones always. Where nothing fits, the result is the script that comes closest. The tools' notes tell what travels
/// and why, and their predicted_seconds how long a cycle is going to take.
///
/// Deterministic: the script, the budgets and the profile decide. More device or host memory never makes a plan
/// that is predicted to be slower, or one that does not fit.
Script insert_swaps(const Script& script, PlanningTools& tools, const SwapRequest& request = {});

/// How a session swaps.
struct SwapOptions {
  std::optional<Profile> profile{};  ///< absent: Profile::nominal()
};

/// Has every program that the session compiles from here on swap what its budgets want.
void insert_swaps(Session& session, const SwapOptions& options = {});

}  // namespace sectionflow

#pragma once

#include <optional>

#include "base/export.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace SF_API sectionflow {

/// How a session swaps.
struct SwapOptions {
  std::optional<Profile> profile{};  ///< absent: Profile::nominal()
};

/// Has every program that the session compiles from here on offload what its budgets have no room for to host memory,
/// and to disk where that is full, losing as little time as the profile lets expect: what fit_budget does for a whole
/// graph where it may neither compute again nor run in parts, but that a refusal tells of the tier that is short. Takes
/// the place of fit_budget and of an earlier insert_swaps. Not one bit of the results changes. More device or host
/// memory never makes a plan that is predicted to be slower, or one that does not fit.
void insert_swaps(Session& session, const SwapOptions& options = {});

}  // namespace sectionflow

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

/// Has every program that the session compiles from here on swap what its budgets want.
void insert_swaps(Session& session, const SwapOptions& options = {});

}  // namespace sectionflow

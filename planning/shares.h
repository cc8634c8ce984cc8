#pragma once

#include "planning/search.h"

namespace sectionflow::planning {

/// What search_plan gives where `never_slower` is asked for: the quickest of the plans for all shares within the
/// budget, from the greatest down to where lower bounds say that no plan is quicker. REQUIRES: options that search_plan
/// has checked.
SearchResult search_shares(const Problem& problem, SearchOptions options);

}  // namespace sectionflow::planning

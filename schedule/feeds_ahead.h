#pragma once

#include <cstddef>
#include <vector>

#include "base/export.h"

namespace SF_API sectionflow {

struct Program;

/// Second places of a program's feeds, in which those of its next execution arrive while it is executed, on a device
/// with queues. They lie behind the planned region, within the budget, and nothing else needs room for them: where
/// there is none, feeds are copied when their steps come, and the plan is the same.
struct FeedsAhead {
  std::vector<std::size_t> offsets{};  ///< by slot (Schedule::feeds), in the planned region; empty: there are none
  std::vector<std::size_t> bytes{};    ///< by slot; 0: the program reads it by no step
  std::size_t end = 0;                 ///< of the last one, in the planned region
};

/// The places behind the plan of a program that fits its budgets; none where less than all fit below `capacity`, the
/// end of the region.
FeedsAhead place_feeds_ahead(const Program& program, std::size_t capacity);

/// Throws: InternalError where one of the program's places is missing, lies badly, lies over another or over what is
/// planned, or reaches beyond `capacity`.
void check_feeds_ahead(const Program& program, std::size_t capacity);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "planning/frontier.h"

namespace sectionflow::planning {

/// The frontiers that were asked for last: who plans the same problem again, for other budgets or beside variables that
/// lie elsewhere, goes on with what was searched for before. For one thread at a time.
class FrontierCache {
 public:
  /// The frontier of an equal problem with the same number of rungs, order, effort and seed, whose progress and check
  /// become those of `options`; or else a new one. Each has a copy of its problem. Throws: as Frontier.
  std::shared_ptr<Frontier> of(const Problem& problem, FrontierOptions options);

  /// A program's as a whole and in parts, by the usual effort and by less.
  static constexpr std::size_t kMost = 4;

 private:
  struct Kept;
  std::list<std::shared_ptr<Kept>> kept_;  // the one that was asked for last comes first
};

}  // namespace sectionflow::planning

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "schedule/placement.h"

namespace sectionflow {

/// Placements that were searched for, so that nobody searches for the same one again: programs that were evicted and
/// are compiled again, drafts that differ in what they copy but not in what lies in a tier, sessions over one graph. A
/// search is a function of its arguments, so what is found here is what would be searched out. Any thread may call.
class PlacementMemory {
 public:
  /// Keeps the results used last, as long as they and their problems take at most `most_bytes`.
  explicit PlacementMemory(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  std::optional<BlockOffsets> find(const PlacementProblem& problem, std::int64_t lower_bound);
  /// Where memory is short, nothing is kept and nothing thrown.
  void keep(const PlacementProblem& problem, std::int64_t lower_bound, const BlockOffsets& placement) noexcept;

  std::size_t bytes() const;

 private:
  struct Entry {
    std::string key;
    BlockOffsets placement;
  };
  using Entries = std::list<Entry>;

  static std::size_t bytes_of(const Entry& entry);
  void insert(Entry entry);

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  Entries entries_;  // the one used last first
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace sectionflow

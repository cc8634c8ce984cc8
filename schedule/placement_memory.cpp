#include "schedule/placement_memory.h"

#include <exception>
#include <type_traits>
#include <utility>
#include <vector>

namespace sectionflow {
namespace {

/// All of the arguments, so that equal keys mean equal problems.
std::string key_of(const PlacementProblem& problem, std::int64_t lower_bound) {
  std::string key;
  key.reserve(sizeof(lower_bound) + sizeof(problem.num_columns) + sizeof(std::size_t) +
              problem.fixed.size() * sizeof(FixedBlock) + problem.blocks.size() * sizeof(Block));
  const auto append = [&key](const auto& value) {
    static_assert(std::has_unique_object_representations_v<std::remove_cvref_t<decltype(value)>>);
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(lower_bound);
  append(problem.num_columns);
  // How many fixed blocks there are says where the others begin.
  append(problem.fixed.size());
  for (const FixedBlock& fixed : problem.fixed) append(fixed);
  for (const Block& block : problem.blocks) append(block);
  return key;
}

}  // namespace

std::optional<BlockOffsets> PlacementMemory::find(const PlacementProblem& problem, std::int64_t lower_bound) {
  const std::string key = key_of(problem, lower_bound);
  const std::scoped_lock lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->placement;
}

void PlacementMemory::keep(const PlacementProblem& problem, std::int64_t lower_bound,
                           const BlockOffsets& placement) noexcept {
  try {
    insert({.key = key_of(problem, lower_bound), .placement = placement});
  } catch (const std::exception&) {
    // The next one will search.
  }
}

void PlacementMemory::insert(Entry entry) {
  const std::size_t bytes = bytes_of(entry);
  if (bytes > most_bytes_) return;
  const std::scoped_lock lock(mutex_);
  if (by_key_.contains(entry.key)) return;
  Entries added;
  added.push_back(std::move(entry));
  by_key_.emplace(added.front().key, added.begin());
  entries_.splice(entries_.begin(), added);
  bytes_ += bytes;
  while (bytes_ > most_bytes_) {
    bytes_ -= bytes_of(entries_.back());
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

std::size_t PlacementMemory::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::size_t PlacementMemory::bytes_of(const Entry& entry) {
  // The list's and the map's nodes take some pointers each.
  constexpr std::size_t kNodeBytes = sizeof(Entry) + 12 * sizeof(void*);
  return kNodeBytes + entry.key.capacity() + entry.placement.offsets.capacity() * sizeof(std::int64_t);
}

}  // namespace sectionflow

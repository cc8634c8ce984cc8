#include "runtime/program_cache.h"

#include <algorithm>
#include <iterator>

namespace sectionflow {
namespace {

bool is_spared(const Program* program, ProgramCache::Spared spared) {
  return std::find(spared.begin(), spared.end(), program) != spared.end();
}

}  // namespace

Executable* ProgramCache::find(std::string_view key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->program.get();
}

Executable& ProgramCache::insert(std::string key, std::uint64_t generation, std::unique_ptr<Executable> program,
                                 Spared spared) {
  const std::size_t bytes = program_bytes(*program);
  if (find(key) == nullptr) {
    Entries added;
    added.push_back({.key = std::move(key), .generation = generation, .program = nullptr});
    by_key_.emplace(added.front().key, added.begin());
    entries_.splice(entries_.begin(), added);
  }
  // From here on nothing allocates.
  Entry& entry = entries_.front();
  entry.program = std::move(program);
  num_bytes_ -= std::exchange(entry.bytes, bytes);
  num_bytes_ += bytes;
  if (std::exchange(generation_, generation) != generation) {
    for (auto other = entries_.begin(); other != entries_.end();) {
      const auto next = std::next(other);
      if (other->generation != generation && !is_spared(other->program.get(), spared)) drop(other);
      other = next;
    }
  }
  evict(spared);
  return *entry.program;
}

void ProgramCache::count_again(Executable& program, Spared spared) {
  // Whoever is executed was found or inserted just now, or a little before.
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.program.get() == &program; });
  if (found == entries_.end()) return;
  num_bytes_ -= std::exchange(found->bytes, program_bytes(program));
  num_bytes_ += found->bytes;
  evict(spared);
}

void ProgramCache::clear() {
  by_key_.clear();
  entries_.clear();
  num_bytes_ = 0;
}

void ProgramCache::swap(ProgramCache& other) noexcept {
  std::swap(num_bytes_, other.num_bytes_);
  std::swap(num_evicted_, other.num_evicted_);
  std::swap(generation_, other.generation_);
  entries_.swap(other.entries_);
  by_key_.swap(other.by_key_);
}

void ProgramCache::drop(Entries::iterator entry) {
  num_bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

/// The latest used is spared as well: it is in somebody's hands.
void ProgramCache::evict(Spared spared) {
  for (auto oldest = entries_.end(); num_bytes_ > most_bytes_ && oldest != entries_.begin();) {
    --oldest;
    if (oldest == entries_.begin() || is_spared(oldest->program.get(), spared)) continue;
    const auto next = std::next(oldest);
    drop(oldest);
    ++num_evicted_;
    oldest = next;
  }
}

}  // namespace sectionflow

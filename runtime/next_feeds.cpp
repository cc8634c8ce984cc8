#include "runtime/next_feeds.h"

#include <algorithm>
#include <utility>

#include "runtime/lent_memory.h"
#include "runtime/queue_program.h"

namespace sectionflow {

void NextFeeds::forget() noexcept {
  offered_.clear();
  lose();
}

void NextFeeds::lose() noexcept {
  arrived_.held.clear();
  arrived_.end = 0;
}

void NextFeeds::take(const Program& program, bool is_whole, std::span<const std::byte* const> feeds,
                     std::vector<bool>& slots) {
  const bool is_there = is_whole && arrived_.end > 0 && arrived_.program == program.number;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    slots[slot] = is_there && arrived_.sources[slot] != nullptr && arrived_.sources[slot] == feeds[slot];
    if (slots[slot]) ++figures_.arrived;
  }
  lose();
}

void NextFeeds::copy(const Program& program, QueueProgram& queue, std::byte* region, const LentMemory* lent) {
  // Held from here on, whatever is thrown: copies may be under way.
  arrived_.held.swap(offered_);
  offered_.clear();
  arrived_.program = program.number;
  const FeedsAhead& ahead = program.feeds_ahead;
  arrived_.sources.assign(ahead.offsets.size(), nullptr);
  for (std::size_t slot = 0; slot < ahead.offsets.size() && lent != nullptr; ++slot) {
    const std::byte* source = offered_bytes(program, slot);
    if (source == nullptr || !lent->is_pinned(source, ahead.bytes[slot])) continue;
    queue.copy_feed_ahead(slot, region, source);
    arrived_.sources[slot] = source;
    arrived_.end = std::max(arrived_.end, ahead.offsets[slot] + ahead.bytes[slot]);
    ++figures_.copied;
  }
  if (arrived_.end == 0) lose();
}

/// nullptr where nothing is offered for the slot, or another number of bytes.
const std::byte* NextFeeds::offered_bytes(const Program& program, std::size_t slot) const {
  const NodeId placeholder = program.schedule.feeds[slot];
  const std::size_t bytes = program.feeds_ahead.bytes[slot];
  const auto fed = std::find_if(arrived_.held.begin(), arrived_.held.end(),
                                [=](const Feed& feed) { return feed.value.node().id() == placeholder; });
  return fed == arrived_.held.end() || bytes == 0 || fed->data.type().bytes() != bytes ? nullptr : fed->data.bytes();
}

}  // namespace sectionflow

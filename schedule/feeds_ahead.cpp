#include "schedule/feeds_ahead.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "schedule/program.h"

namespace sectionflow {
namespace {

std::vector<std::size_t> bytes_of_slots(const Schedule& schedule) {
  std::vector<std::size_t> bytes(schedule.feeds.size(), 0);
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::feed) continue;
    bytes[static_cast<std::size_t>(step.slot)] =
        schedule.buffers[static_cast<std::size_t>(step.outputs[0].index)].bytes;
  }
  return bytes;
}

}  // namespace

FeedsAhead place_feeds_ahead(const Program& program, std::size_t capacity) {
  FeedsAhead ahead{.bytes = bytes_of_slots(program.schedule)};
  std::size_t next = round_up(program.plan.peak_bytes);
  for (const std::size_t bytes : ahead.bytes) {
    // Without a sum that could overflow.
    if (next > capacity || bytes > capacity - next) return {};
    ahead.offsets.push_back(next);
    ahead.end = next + bytes;
    next = round_up(ahead.end);
  }
  const bool is_fed = std::any_of(ahead.bytes.begin(), ahead.bytes.end(), [](std::size_t bytes) { return bytes > 0; });
  return is_fed ? ahead : FeedsAhead();
}

void check_feeds_ahead(const Program& program, std::size_t capacity) {
  const FeedsAhead& ahead = program.feeds_ahead;
  if (ahead.offsets.empty()) return;
  const std::size_t num_slots = program.schedule.feeds.size();
  SF_CHECK(ahead.offsets.size() == num_slots && ahead.bytes.size() == num_slots, InternalError,
           "feeds ahead: ", ahead.offsets.size(), " places for ", num_slots, " feeds");
  // What is planned, and behind it place by place.
  std::size_t taken = 0;
  for (std::size_t i = 0; i < program.storage.storages.size(); ++i) {
    const Storage& storage = program.storage.storages[i];
    if (storage.tier == Tier::device) taken = std::max(taken, program.plan.offsets[i] + storage.bytes);
  }
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::size_t slot = 0; slot < num_slots; ++slot) places.emplace_back(ahead.offsets[slot], ahead.bytes[slot]);
  std::sort(places.begin(), places.end());
  for (const auto& [offset, bytes] : places) {
    SF_CHECK(offset % kBufferAlignment == 0 && offset >= taken, InternalError, "feeds ahead: a place at ", offset,
             " behind bytes that are taken up to ", taken);
    taken = offset + bytes;
  }
  SF_CHECK(taken == ahead.end && taken <= capacity, InternalError, "feeds ahead: the places end at ", taken,
           ", said is ", ahead.end, ", and the region ends at ", capacity);
  for (const Step& step : program.schedule.steps) {
    if (step.kind != StepKind::feed) continue;
    const std::size_t bytes = program.schedule.buffers[static_cast<std::size_t>(step.outputs[0].index)].bytes;
    SF_CHECK(ahead.bytes[static_cast<std::size_t>(step.slot)] == bytes, InternalError, "feeds ahead: a place of ",
             ahead.bytes[static_cast<std::size_t>(step.slot)], " bytes for a feed of ", bytes);
  }
}

}  // namespace sectionflow

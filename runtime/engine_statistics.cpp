// What a session measures and counts.

#include <algorithm>

#include "base/bytes.h"
#include "runtime/engine.h"
#include "runtime/next_feeds.h"
#include "runtime/swap_engine.h"

namespace sectionflow {
namespace {

/// Bytes behind the planned peak in which a write shows to the byte; farther away it shows by its page.
constexpr std::size_t kMargin = 1_MiB;

/// The highest end, in a tier, of what begins in the forward half; at least `persistent`. `offset`: of its region.
std::size_t forward_half_peak(const Program& program, Tier tier, std::size_t persistent, std::size_t offset) {
  const std::size_t end = program.digest.forward.ends[static_cast<std::size_t>(tier)];
  return end == 0 ? persistent : std::max(persistent, offset + end);
}

}  // namespace

/// Libraries load code when it is first used, and recordings take memory of their own: then, and only then, the GPU is
/// asked again.
void Engine::note_context(Executable& program) {
  statistics_.context_bytes = program.report.context_bytes = device_->context_bytes();
}

/// What the cache of programs holds by now.
void Engine::count_programs() {
  statistics_.programs_kept = programs_.num_programs();
  statistics_.program_bytes = programs_.num_bytes();
  statistics_.programs_evicted += programs_.take_evicted();
}

void Engine::begin_measurement(const Program& program) {
  // What is written behind the window shows by its page, what is written in it by the byte.
  next_feeds_->lose();
  const std::size_t ahead = next_feeds_->is_offered() ? program.feeds_ahead.end : 0;
  arena().begin_measurement(program.transient_offset, std::max(program.plan.peak_bytes, ahead) + kMargin);
  holds_->make_place_for(program.report.host_peak_bytes);
  swaps_->prepare(program);
  swaps_->begin_measurement(program);
}

void Engine::extend_measurement(const Program& program) {
  arena().extend_measurement(program.transient_offset, program.plan.peak_bytes + kMargin);
  swaps_->extend_measurement(program);
}

void Engine::add_forward_half(const Program& forward) {
  const ProgramReport& report = forward.report;
  const auto raise = [](std::size_t& peak, std::size_t other) { peak = std::max(peak, other); };
  // A cycle reaches as high as the higher of its halves.
  const std::size_t device =
      forward_half_peak(forward, Tier::device, report.persistent_bytes, forward.transient_offset);
  raise(statistics_.planned_peak_bytes, device);
  raise(statistics_.peak_bytes_in_use, device);
  raise(statistics_.peak_bytes_active, device);
  raise(statistics_.planned_host_peak_bytes,
        forward_half_peak(forward, Tier::host, report.host_persistent_bytes, forward.host_offset));
  raise(statistics_.planned_disk_peak_bytes,
        forward_half_peak(forward, Tier::disk, report.disk_persistent_bytes, forward.disk_offset));
  const ForwardHalfFigures& half = forward.digest.forward;
  statistics_.bytes_reclaimed += half.bytes_out;
  // What is left to the backward half is counted there.
  statistics_.num_allocs += half.num_ended;
  raise(statistics_.largest_alloc_size, half.largest_device_bytes);
}

void Engine::finish(const Program& program, bool completed, bool is_measured) {
  if (completed) ++cycle_;
  statistics_.largest_alloc_size = std::max(statistics_.largest_alloc_size, program.digest.largest_device_bytes);
  statistics_.num_allocs += static_cast<std::int64_t>(program.storage.storages.size());
  // Feeds of the next execution lie behind the plan.
  const std::size_t ahead = next_feeds_->end() == 0 ? 0 : program.transient_offset + next_feeds_->end();
  const std::size_t peak = std::max(program.report.planned_peak_bytes, ahead);
  statistics_.planned_peak_bytes = peak;
  statistics_.planned_host_peak_bytes = program.report.host_peak_bytes;
  statistics_.planned_disk_peak_bytes = program.report.disk_peak_bytes;
  statistics_.measured_peak_bytes = 0;
  statistics_.measured_host_peak_bytes = statistics_.measured_disk_peak_bytes = 0;
  if (is_measured) {
    const std::size_t touched = arena().highest_touched(program.transient_offset);
    statistics_.measured_peak_bytes = touched > program.transient_offset ? touched : layout().end_bytes;
    statistics_.measured_host_peak_bytes = swaps_->measured_host_peak(program);
    statistics_.measured_disk_peak_bytes = swaps_->measured_disk_peak(program);
  }
  statistics_.bytes_reclaimed += program.report.bytes_out;
  statistics_.bytes_in_use = statistics_.bytes_active = layout().end_bytes;
  statistics_.peak_bytes_in_use = std::max(statistics_.peak_bytes_in_use, peak);
  statistics_.peak_bytes_active = statistics_.peak_bytes_in_use;
}

void Engine::clear_statistics() {
  const Statistics before = statistics_;
  statistics_ = {};
  statistics_.bytes_limit = before.bytes_limit;
  statistics_.bytes_reservable_limit = before.bytes_reservable_limit;
  statistics_.bytes_reserved = statistics_.peak_bytes_reserved = before.bytes_reserved;
  statistics_.context_bytes = before.context_bytes;
  statistics_.programs_kept = before.programs_kept;
  statistics_.program_bytes = before.program_bytes;
  statistics_.bytes_in_use = statistics_.bytes_active = before.bytes_in_use;
  statistics_.peak_bytes_in_use = statistics_.peak_bytes_active = before.bytes_in_use;
}

Engine::Workbench Engine::workbench() {
  check_not_pending("measuring");
  SF_CHECK_CODE(initialized_, ArgumentError, ErrorCode::not_initialized, "the session's variables have no values yet",
                hint("call session.initialize() first"));
  next_feeds_->lose();
  const std::size_t begin = std::min(round_up(layout().end_bytes), budgets_.device);
  return {*device_, layout(), arena().data(), {arena().data() + begin, budgets_.device - begin}};
}

}  // namespace sectionflow

#include "runtime/queue_program.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"

namespace sectionflow {

QueueProgram::QueueProgram(const Executable& program, DeviceQueues& queues)
    : program_(program),
      queues_(queues),
      events_(program.schedule.steps.size()),
      joint_(program),
      chains_(program),
      marks_(queues) {
  const Schedule& schedule = program.schedule;
  feed_offsets_.assign(schedule.feeds.size(), 0);
  feed_sources_.assign(schedule.feeds.size(), nullptr);
  std::vector<std::size_t> feed_bytes(schedule.feeds.size(), 0);
  first_feeds_.assign(schedule.feeds.size(), -1);
  arrived_.assign(schedule.feeds.size(), false);
  places_are_free_.resize(schedule.feeds.size());
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::feed) continue;
    const auto slot = static_cast<std::size_t>(step.slot);
    feed_bytes[slot] = schedule.buffers[static_cast<std::size_t>(step.outputs[0].index)].bytes;
    if (first_feeds_[slot] < 0) first_feeds_[slot] = static_cast<StepIndex>(&step - schedule.steps.data());
  }
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) { return std::exchange(end, round_up(end + bytes)); };
  std::transform(feed_bytes.begin(), feed_bytes.end(), feed_offsets_.begin(), place);
  for (const FetchSlot& slot : schedule.fetches) fetch_offsets_.push_back(place(slot.bytes));
  staging_ = queues.allocate_host(end);
  staging_bytes_ = end;

  std::array<bool, kNumLanes> used{};
  for (const Step& step : schedule.steps) {
    used[static_cast<std::size_t>(step.lane)] = true;
    for (StepIndex earlier : step.waits) {
      auto& event = events_[static_cast<std::size_t>(earlier)];
      const bool on_queue = is_queue(schedule.steps[static_cast<std::size_t>(earlier)].lane);
      if (on_queue && event == nullptr) event = queues.make_event();
    }
  }
  for (Lane lane : {Lane::copy_out, Lane::copy_in}) {
    if (used[static_cast<std::size_t>(lane)]) copy_queues_.push_back(queue_of(lane));
  }
  for (std::size_t i = 0; i < copy_queues_.size() + 1; ++i) lane_events_.push_back(queues.make_event());
}

std::size_t QueueProgram::host_bytes() const {
  // An event with the driver's part, what joint launches and chains hold of a step, a node of a recording.
  constexpr std::size_t kEvent = 128, kLaunch = 128, kRecordedStep = 512;
  const std::size_t steps = program_.schedule.steps.size();
  const auto events = static_cast<std::size_t>(
      std::count_if(events_.begin(), events_.end(), [](const auto& event) { return event != nullptr; }));
  return staging_bytes_ + events * kEvent + steps * (sizeof(void*) + kLaunch) +
         recordings_.size() * steps * kRecordedStep;
}

void QueueProgram::set_feed(std::size_t slot, const std::byte* bytes, std::size_t num_bytes, bool is_pinned) {
  std::byte* staging = staging_->data() + feed_offsets_[slot];
  if (!is_pinned && num_bytes > 0) std::memcpy(staging, bytes, num_bytes);
  feed_sources_[slot] = is_pinned ? bytes : staging;
}

bool QueueProgram::finds_feed_ahead(const Step& step) const {
  const auto slot = static_cast<std::size_t>(step.slot);
  return arrived_[slot] && &step == &program_.schedule.steps[static_cast<std::size_t>(first_feeds_[slot])];
}

void QueueProgram::take_feed_ahead(std::size_t slot, std::byte* region, std::byte* to, std::optional<int> poison) {
  std::byte* place = region + program_.feeds_ahead.offsets[slot];
  const std::size_t bytes = program_.feeds_ahead.bytes[slot];
  queues_.copy(Queue::compute, to, place, bytes);
  if (poison) queues_.fill(Queue::compute, place, *poison, bytes);
  auto& is_free = places_are_free_[slot];
  if (is_free == nullptr) is_free = queues_.make_event();
  queues_.record_for_all(*is_free, Queue::compute);
}

void QueueProgram::copy_feed_ahead(std::size_t slot, std::byte* region, const std::byte* from) {
  if (arrived_[slot]) queues_.wait(Queue::copy_in, *places_are_free_[slot]);
  queues_.copy_from_host(Queue::copy_in, region + program_.feeds_ahead.offsets[slot], from,
                         program_.feeds_ahead.bytes[slot]);
}

void QueueProgram::fork() {
  if (copy_queues_.empty()) return;
  queues_.record(*lane_events_.back(), Queue::compute);
  for (Queue queue : copy_queues_) queues_.wait(queue, *lane_events_.back());
}

void QueueProgram::join() {
  for (std::size_t i = 0; i < copy_queues_.size(); ++i) {
    queues_.record(*lane_events_[i], copy_queues_[i]);
    queues_.wait(Queue::compute, *lane_events_[i]);
  }
}

void QueueProgram::wait(StepIndex index, StepIndex first) {
  const Step& step = program_.schedule.steps[static_cast<std::size_t>(index)];
  for (StepIndex earlier : step.waits) {
    // The disk's lanes are over when their thread says so.
    if (earlier < first || !is_queue(program_.schedule.steps[static_cast<std::size_t>(earlier)].lane)) continue;
    DeviceEvent& event = *events_[static_cast<std::size_t>(earlier)];
    if (is_queue(step.lane)) {
      queues_.wait(queue_of(step.lane), event);
    } else {
      queues_.synchronize(event);
    }
  }
}

void QueueProgram::passed(StepIndex index) {
  DeviceEvent* event = events_[static_cast<std::size_t>(index)].get();
  if (event == nullptr) return;
  queues_.record(*event, queue_of(program_.schedule.steps[static_cast<std::size_t>(index)].lane));
}

bool QueueProgram::uses_disk(StepIndex first, StepIndex last) const {
  return !steps_between(program_.digest.beside, first, last).empty();
}

DeviceGraph* QueueProgram::recording(StepIndex first, StepIndex last) {
  const auto found = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& each) {
    return each.first == first && each.last == last && each.arrived == arrived_;
  });
  return found == recordings_.end() ? nullptr : found->graph.get();
}

void QueueProgram::keep_recording(StepIndex first, StepIndex last, std::unique_ptr<DeviceGraph> graph) {
  recordings_.push_back({first, last, arrived_, std::move(graph)});
}

int QueueProgram::Marks::add(Queue queue) {
  const std::lock_guard lock(mutex_);
  if (used_ == static_cast<int>(marks_.size())) marks_.push_back(queues_.make_event());
  queues_.record(*marks_[static_cast<std::size_t>(used_)], queue);
  return used_++;
}

}  // namespace sectionflow

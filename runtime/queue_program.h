#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "device/device_queues.h"
#include "runtime/executable.h"
#include "runtime/shared_launches.h"
#include "runtime/trace.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// What a program needs besides addresses to be executed on a device with queues: pinned memory for feeds and fetches,
/// events for the steps that other lanes wait for, the launches that several steps share, and the recordings of its
/// halves. Made when it is first executed there. The lanes compute, copy out and copy in are queues of the device; the
/// disk's lanes are threads of the host.
class QueueProgram {
 public:
  /// Both must outlive this; the program is bound. Throws: DeviceError.
  QueueProgram(const Executable& program, DeviceQueues& queues);

  DeviceQueues& queues() { return queues_; }
  /// Where the device copies each feed's slot from in this execution; nullptr where that is not known yet.
  std::span<const std::byte* const> feed_sources() const { return feed_sources_; }
  void forget_feeds() { std::fill(feed_sources_.begin(), feed_sources_.end(), nullptr); }
  /// The feed of a slot: from where it lies if that is pinned, otherwise by way of pinned memory of ours.
  void set_feed(std::size_t slot, const std::byte* bytes, std::size_t num_bytes, bool is_pinned);
  /// Which slots' bytes have arrived in their places ahead (FeedsAhead), for this execution: their first steps copy
  /// from there. Recordings tell such executions apart.
  std::vector<bool>& arrived() { return arrived_; }
  /// Whether a step that copies a feed in finds it in its place ahead.
  bool finds_feed_ahead(const Step& step) const;
  /// Gives compute the copy from the slot's place, and then a fill if a `poison` is given; the place is free behind
  /// both.
  void take_feed_ahead(std::size_t slot, std::byte* region, std::byte* to, std::optional<int> poison);
  /// Gives copy-in a copy to the slot's place, for the next execution: behind what this one reads there.
  void copy_feed_ahead(std::size_t slot, std::byte* region, const std::byte* from);
  /// Pinned memory of a fetch's slot.
  std::byte* fetch(std::size_t slot) { return staging_->data() + fetch_offsets_[slot]; }

  /// Lets the copy lanes begin behind what the compute lane has been given so far; afterwards the compute lane waits
  /// for them.
  void fork();
  void join();
  /// Has the step's lane wait for those it must wait for, as far as they are not before `first`: a queue by an event, a
  /// thread of the host by waiting.
  void wait(StepIndex index, StepIndex first);
  /// Said behind each step's work: others may wait for it now.
  void passed(StepIndex index);

  /// Whether the step's kernel is launched with those of others: jointly, or in a chain.
  bool shares_launch(StepIndex index) const { return joint_.contains(index) || chains_.contains(index); }
  /// In the turn of such a step: launches them all when it is the last of them.
  void reach_shared(StepIndex index) {
    void* queue = queues_.native(Queue::compute);
    if (joint_.contains(index)) return joint_.reach(index, queue, queues_.random_state());
    chains_.reach(index, queue, queues_.random_state());
  }

  /// Whether steps [first, last) contain some of the disk's, which no recording can hold.
  bool uses_disk(StepIndex first, StepIndex last) const;
  /// The recording of steps [first, last) with what has arrived; nullptr before there is one.
  DeviceGraph* recording(StepIndex first, StepIndex last);
  void keep_recording(StepIndex first, StepIndex last, std::unique_ptr<DeviceGraph> graph);
  std::size_t num_recordings() const { return recordings_.size(); }
  /// Host memory that it takes: pinned memory in the first place; events and recordings by what is usual.
  std::size_t host_bytes() const;
  /// Steps [first, last) that the machine has refused to record.
  bool is_unrecordable(StepIndex first, StepIndex last) const { return unrecordable_.contains({first, last}); }
  void set_unrecordable(StepIndex first, StepIndex last) { unrecordable_.insert({first, last}); }
  /// Forgets recordings from before the pool of host memory was pinned for the `pinning`th time.
  void use_pinning(int pinning) {
    if (std::exchange(pinning_, pinning) != pinning) recordings_.clear();
  }
  /// How often steps [first, last) have been executed.
  int count_execution(StepIndex first, StepIndex last) { return executions_[{first, last}]++; }

  /// Marks of time on a lane's queue, to be read when all is over.
  class Marks {
   public:
    explicit Marks(DeviceQueues& queues) : queues_(queues) {}
    /// The next mark's number. Threads: any.
    int add(Queue queue);
    double seconds_between(int from, int to) { return queues_.seconds_between(*marks_[from], *marks_[to]); }
    void clear() { used_ = 0; }

   private:
    DeviceQueues& queues_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<DeviceEvent>> marks_;
    int used_ = 0;
  };
  Marks& marks() { return marks_; }

 private:
  const Executable& program_;
  DeviceQueues& queues_;
  std::vector<std::size_t> feed_offsets_, fetch_offsets_;
  std::vector<const std::byte*> feed_sources_;
  std::unique_ptr<DeviceMemory> staging_;
  std::size_t staging_bytes_ = 0;
  std::vector<std::unique_ptr<DeviceEvent>> events_;  // one a step that other lanes wait for
  std::vector<std::unique_ptr<DeviceEvent>> lane_events_;
  JointLaunches joint_;
  ChainLaunches chains_;
  std::vector<Queue> copy_queues_;                             // those that the program uses
  std::vector<StepIndex> first_feeds_;                         // by slot
  std::vector<bool> arrived_;                                  // by slot
  std::vector<std::unique_ptr<DeviceEvent>> places_are_free_;  // by slot, once its place has been read
  struct Recording {
    StepIndex first = 0, last = 0;
    std::vector<bool> arrived{};
    std::unique_ptr<DeviceGraph> graph{};
  };
  std::vector<Recording> recordings_;
  std::map<std::pair<StepIndex, StepIndex>, int> executions_;
  std::set<std::pair<StepIndex, StepIndex>> unrecordable_;
  int pinning_ = 0;
  Marks marks_;
};

/// The queue that executes the lane.
inline Queue queue_of(Lane lane) {
  return lane == Lane::copy_out ? Queue::copy_out : lane == Lane::copy_in ? Queue::copy_in : Queue::compute;
}

}  // namespace sectionflow

#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device_queues.h"

// Queues that the host emulates: what they are given, what CUDA would record of it, and who goes on next.
namespace sectionflow::testing_support {

class Event final : public DeviceEvent {
 public:
  int recorded = 0, passed = 0;  ///< how often
  bool is_captured = false;      ///< its latest record is of a recording alone: nobody outside may wait for it
  double time = 0;               // in seconds
};

/// One thing that a queue does: some work, or waiting for an event, or passing one.
struct Task {
  std::function<void()> work{};
  std::string what{};  ///< for who watches
  Event* waits_for = nullptr;
  int waits_until = 0;  ///< Event::passed
  Event* passes = nullptr;
};

/// What queues were given, and whether CUDA would have recorded it: a queue other than compute joins by waiting for one
/// that is in, nobody waits for an event from before, and compute waits for all in the end.
struct Recording final : DeviceGraph {
  std::vector<std::pair<Queue, Task>> tasks;
  std::array<bool, kNumQueues> joined{true, false, false};
  std::array<std::size_t, kNumQueues> ends{};  // of the tasks that compute knows to be done
  std::map<Event*, std::pair<Queue, std::size_t>> recorded;
  std::vector<std::pair<int, std::shared_ptr<const void*>>> feeds;  // number, and where its copy finds what it reads

  void use(Queue queue) const {
    SF_CHECK(joined[static_cast<std::size_t>(queue)], InternalError, "recording: a queue works that has not joined");
  }
  std::size_t count(Queue queue) const {
    return static_cast<std::size_t>(std::count_if(
        tasks.begin(), tasks.end(), [=](const auto& task) { return task.first == queue && task.second.work; }));
  }
  void note_record(Queue queue, Event& event) {
    use(queue);
    recorded[&event] = {queue, count(queue)};
  }
  void note_wait(Queue queue, Event& event) {
    const auto found = recorded.find(&event);
    SF_CHECK(found != recorded.end(), InternalError, "recording: a queue waits for an event from before");
    joined[static_cast<std::size_t>(queue)] = true;
    if (queue != Queue::compute) return;
    std::size_t& end = ends[static_cast<std::size_t>(found->second.first)];
    end = std::max(end, found->second.second);
  }
  void check_end() const {
    for (Queue queue : {Queue::copy_out, Queue::copy_in}) {
      SF_CHECK(ends[static_cast<std::size_t>(queue)] == count(queue), InternalError,
               "recording: the compute queue does not wait for all of another");
    }
  }
};

/// Three queues and who goes on next. Threads: any.
class Queues {
 public:
  /// `watch` is called with what has been done: the queue's name, and what it was, where that has been said.
  explicit Queues(std::uint64_t seed, std::function<void(const std::string&)> watch = {})
      : random_(seed), watch_(std::move(watch)) {}

  void push(Queue queue, Task task) {
    const std::lock_guard lock(mutex_);
    if (recording_ != nullptr) {
      recording_->use(queue);
      recording_->tasks.emplace_back(queue, std::move(task));
    } else {
      place(queue, std::move(task));
    }
  }
  /// `for_all`: also for those outside of a recording that is under way, and then not for those in it.
  void record(Event& event, Queue queue, bool for_all) {
    const std::lock_guard lock(mutex_);
    event.is_captured = recording_ != nullptr && !for_all;
    if (recording_ != nullptr) {
      recording_->use(queue);
      if (!for_all) recording_->note_record(queue, event);
      recording_->tasks.emplace_back(queue, Task{.passes = &event});
    } else {
      ++event.recorded;
      place(queue, {.passes = &event});
    }
  }
  void wait(Event& event, Queue queue) {
    const std::lock_guard lock(mutex_);
    if (recording_ != nullptr) {
      recording_->note_wait(queue, event);
      recording_->tasks.emplace_back(queue, Task{.waits_for = &event});
    } else {
      SF_CHECK(!event.is_captured, InternalError, "a queue waits for an event of a recording, from outside");
      place(queue, {.waits_for = &event, .waits_until = event.recorded});
    }
  }
  void finish(Event& event) {
    const std::lock_guard lock(mutex_);
    SF_CHECK(recording_ == nullptr, InternalError, "the host waits for what is only being recorded");
    const int until = event.recorded;
    work_until([&] { return event.passed >= until; });
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    SF_CHECK(recording_ == nullptr, InternalError, "the host waits for what is only being recorded");
    work_until(
        [&] { return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& queue) { return queue.empty(); }); });
  }
  void set_recording(Recording* recording) {
    const std::lock_guard lock(mutex_);
    recording_ = recording;
  }
  void launch(const Recording& recording) {
    const std::lock_guard lock(mutex_);
    for (Queue queue : {Queue::copy_out, Queue::copy_in}) {
      SF_CHECK(tasks_[static_cast<std::size_t>(queue)].empty(), InternalError,
               "a recording is launched beside work of another queue");
    }
    for (const auto& [queue, task] : recording.tasks) {
      Task again = task;
      if (again.waits_for != nullptr) again.waits_until = again.waits_for->recorded;
      if (again.passes != nullptr) ++again.passes->recorded;
      place(queue, std::move(again));
    }
  }
  std::uint64_t draw() { return random_(); }

 private:
  void place(Queue queue, Task task) { tasks_[static_cast<std::size_t>(queue)].push_back(std::move(task)); }

  /// The host's time in seconds, and later than the last one: what is timed on the device and on the host agrees.
  double next_time() {
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    time_ = std::max(now, time_ + 1e-9);
    return time_;
  }

  bool is_ready(const std::deque<Task>& queue) const {
    return !queue.empty() &&
           (queue.front().waits_for == nullptr || queue.front().waits_for->passed >= queue.front().waits_until);
  }
  template <class Done>
  void work_until(const Done& done) {
    while (!done()) {
      std::vector<std::deque<Task>*> ready;
      for (std::deque<Task>& queue : tasks_) {
        if (is_ready(queue)) ready.push_back(&queue);
      }
      SF_CHECK(!ready.empty(), InternalError, "the queues wait for each other, or for an event that nobody records");
      std::deque<Task>& queue = *ready[random_() % ready.size()];
      // A burst, so that one queue may run far ahead of another.
      for (std::uint64_t burst = 1 + random_() % 16; burst > 0 && is_ready(queue) && !done(); --burst) {
        const Task task = std::move(queue.front());
        queue.pop_front();
        if (task.work) task.work();
        if (task.work && watch_) watch_(name_of(queue) + task.what);
        if (task.passes != nullptr) {
          ++task.passes->passed;
          task.passes->time = next_time();
        }
      }
    }
  }

  std::string name_of(const std::deque<Task>& queue) const {
    static const std::array<std::string, kNumQueues> names = {"compute", "copy_out", "copy_in"};
    return names[static_cast<std::size_t>(&queue - tasks_.data())];
  }

  std::mutex mutex_;
  std::mt19937_64 random_;
  std::function<void(const std::string&)> watch_;
  std::array<std::deque<Task>, kNumQueues> tasks_;
  Recording* recording_ = nullptr;
  double time_ = 0;
};

}  // namespace sectionflow::testing_support

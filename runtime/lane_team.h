#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace sectionflow {

/// Threads that execute the lanes of a schedule beside the thread of the compute lane.
///
/// They are made once and sleep between executions; nothing is allocated by start and join. A worker is no member of an
/// OpenMP team and must never open a parallel region: that would make a second team beside the first. Bodies run
/// inside a StepScope. Workers block all signals, so that the program's handlers run on the program's threads.
///
/// Threads: one thread at a time calls start and join, in turn.
class LaneTeam {
 public:
  /// What a worker does: called with the `context` given to start, and the number of the worker.
  using Body = void (*)(void* context, int worker);

  /// Throws: DeviceError when the machine refuses a thread.
  explicit LaneTeam(int threads);
  /// Waits for bodies that still run; what they threw is lost.
  ~LaneTeam();
  LaneTeam(const LaneTeam&) = delete;
  LaneTeam& operator=(const LaneTeam&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Has worker i call body(context, i), for each i; returns at once. `context` must live until join() returns.
  /// Throws: InternalError when the last bodies were not joined.
  void start(Body body, void* context);
  /// The same for anything that can be called with the number of a worker; it is not copied.
  template <class Callable>
  void start(Callable& body) {
    start([](void* context, int worker) { (*static_cast<Callable*>(context))(worker); },
          const_cast<std::remove_const_t<Callable>*>(&body));
  }
  /// Waits until all bodies have ended. Throws: the first exception that left a body; the team can be used again.
  void join();

 private:
  void work(int worker);
  void add_threads(int threads);
  void close() noexcept;

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::uint64_t num_rounds_ = 0;
  int num_running_ = 0;
  bool is_closing_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

/// How far each lane of an execution has come: a count of completed steps that only rises. A lane waits for the counts
/// of others; after an error nobody waits any more.
///
/// What a lane wrote before complete() is seen by those whose wait_until() for it has returned true.
/// Threads: each lane is completed by one thread; everything else by any, but for reset.
class LaneProgress {
 public:
  explicit LaneProgress(int num_lanes);

  /// One more step of the lane is over.
  void complete(int lane);
  std::uint64_t completed(int lane) const { return counts_[lane].value.load(std::memory_order_acquire); }
  /// Waits until the lane has completed `count` steps: true; false, at once, when somebody has failed.
  [[nodiscard]] bool wait_until(int lane, std::uint64_t count);

  /// Wakes all that wait, for ever after. The first error is kept.
  void fail(std::exception_ptr error);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// Throws: the error of the first fail(...), if there was one.
  void rethrow();

  /// For the next execution: all counts are 0, no error. Only while no lane runs.
  void reset();

 private:
  // A cache line each: lanes count while others look.
  struct alignas(64) Count {
    std::atomic<std::uint64_t> value{0};
  };

  int num_lanes_;
  std::unique_ptr<Count[]> counts_;
  std::atomic<bool> failed_{false};
  std::atomic<int> num_waiting_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
};

}  // namespace sectionflow

#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/source.h"

namespace sectionflow {

/// What a worker does to an example; nothing where it is left out. Exceptions come out where the result is taken.
using ExampleWork = std::function<std::optional<Example>(Example)>;

/// A thread for `what`, as in "a map". Throws: DeviceError where the system refuses it, with what else to try.
std::jthread start_thread(const std::string& what, const std::string& advice, std::function<void()> body);

/// Threads that carry out the maps of one iterator. Owns: its threads.
class WorkerPool {
 public:
  /// Throws: DeviceError, as start_thread.
  explicit WorkerPool(int threads);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  /// Every OrderedWork of it is gone by then.
  ~WorkerPool();

 private:
  friend class OrderedWork;
  struct Task {
    enum class Phase { queued, running, done, cancelled };
    Phase phase = Phase::queued;
    ExampleWork work;
    Example input;
    std::optional<Example> output;
    std::exception_ptr error;
    std::size_t output_bytes = 0;
  };
  void work_all();

  std::mutex mutex_;  // guards what follows
  std::condition_variable queued_, done_;
  std::deque<std::shared_ptr<Task>> queue_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // last: ends before what it uses
};

/// Work whose results are taken in the order in which it was given. Threads: one at a time.
class OrderedWork {
 public:
  /// No more than `max_tasks` are under way or wait to be taken; of those that wait, no more than about `max_bytes`.
  OrderedWork(WorkerPool& pool, std::size_t max_tasks, std::size_t max_bytes)
      : pool_(pool), max_tasks_(max_tasks), max_bytes_(max_bytes) {}
  OrderedWork(const OrderedWork&) = delete;
  OrderedWork& operator=(const OrderedWork&) = delete;
  ~OrderedWork() { clear(); }

  /// Whether another task is taken now. True when there is none.
  bool has_capacity();
  void submit(ExampleWork work, Example input);
  bool empty() const { return tasks_.empty(); }
  /// The result of the oldest task. Throws: what its work threw.
  std::optional<Example> take();
  /// Leaves out the result of the oldest task, and what its work threw; waits for it where it is running.
  void drop();
  /// Drops what was not taken; waits for what is running.
  void clear();

 private:
  WorkerPool& pool_;
  const std::size_t max_tasks_, max_bytes_;
  std::deque<std::shared_ptr<WorkerPool::Task>> tasks_;
  // Whatever the pool tells of a task is read under its mutex.
};

}  // namespace sectionflow

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sectionflow {

/// A thread for each tower, on which everything of that tower is done: libraries keep what they know by thread, and
/// OpenMP keeps a team for each thread that begins one. Threads hold signals, which are the program's.
class TowerThreads {
 public:
  /// Throws: DeviceError when the machine refuses a thread; std::bad_alloc.
  explicit TowerThreads(int count);
  ~TowerThreads();
  TowerThreads(const TowerThreads&) = delete;
  TowerThreads& operator=(const TowerThreads&) = delete;

  /// Calls call(i) on thread i, for each i at once, and returns when all calls have. `call` must not throw. One thread
  /// at a time, none of these.
  void run(const std::function<void(int)>& call);

 private:
  void work(int number);
  void close() noexcept;

  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(int)>* call_ = nullptr;
  std::uint64_t num_calls_ = 0;
  int num_running_ = 0;
  bool is_closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sectionflow

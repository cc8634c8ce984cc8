#include "train/tower_threads.h"

#include <system_error>

#include "base/error.h"
#include "base/held_signals.h"
#include "device/team_waiting.h"

namespace sectionflow {

TowerThreads::TowerThreads(int count) {
  threads_.reserve(static_cast<std::size_t>(count));
  try {
    const HeldSignals held;
    for (int number = 0; number < count; ++number) threads_.emplace_back([this, number] { work(number); });
  } catch (const std::system_error& error) {
    close();
    throw DeviceError(text_of("cpu: thread ", threads_.size() + 1, " of ", count,
                              " for towers was refused: ", error.what(), "; try a higher limit of processes"));
  } catch (...) {
    close();
    throw;
  }
}

TowerThreads::~TowerThreads() {
  close();
}

void TowerThreads::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TowerThreads::run(const std::function<void(int)>& call) {
  std::unique_lock lock(mutex_);
  call_ = &call;
  num_running_ = static_cast<int>(threads_.size());
  ++num_calls_;
  begun_.notify_all();
  ended_.wait(lock, [this] { return num_running_ == 0; });
}

void TowerThreads::work(int number) {
  leave_core_of_team();
  std::unique_lock lock(mutex_);
  for (std::uint64_t num_made = 0;; ++num_made) {
    begun_.wait(lock, [&] { return is_closing_ || num_calls_ > num_made; });
    if (num_calls_ == num_made) return;
    const std::function<void(int)>& call = *call_;
    lock.unlock();
    call(number);
    lock.lock();
    if (--num_running_ == 0) ended_.notify_all();
  }
}

}  // namespace sectionflow

#include "runtime/lane_team.h"

#include <system_error>
#include <utility>

#include "base/allocation_scope.h"
#include "base/error.h"
#include "base/held_signals.h"
#include "device/parallel.h"
#include "device/team_waiting.h"

namespace sectionflow {

LaneTeam::LaneTeam(int threads) {
  SF_CHECK(threads >= 0, InternalError, "a team of ", threads, " lanes");
  threads_.reserve(static_cast<std::size_t>(threads));
  try {
    const HeldSignals held;
    add_threads(threads);
  } catch (...) {
    close();
    throw;
  }
}

LaneTeam::~LaneTeam() {
  close();
}

void LaneTeam::add_threads(int threads) {
  try {
    for (int worker = 0; worker < threads; ++worker) {
      threads_.emplace_back([this, worker] {
        leave_core_of_team();
        // As the compute team's threads: sums of ranks are those of one process.
        flush_denormals();
        work(worker);
      });
    }
  } catch (const std::system_error& error) {
    throw DeviceError(text_of("cpu: thread ", threads_.size() + 1, " of ", threads,
                              " for copies and the disk was refused: ", error.what(),
                              "; try a higher limit of processes"));
  }
}

void LaneTeam::close() noexcept {
  {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return num_running_ == 0; });
    is_closing_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneTeam::start(Body body, void* context) {
  {
    const std::lock_guard lock(mutex_);
    SF_CHECK(num_running_ == 0 && error_ == nullptr, InternalError, "lanes are started before the last were joined");
    body_ = body;
    context_ = context;
    num_running_ = size();
    ++num_rounds_;
  }
  begun_.notify_all();
}

void LaneTeam::join() {
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return num_running_ == 0; });
    error = std::exchange(error_, nullptr);
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void LaneTeam::work(int worker) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t num_executed = 0;; ++num_executed) {
    begun_.wait(lock, [&] { return is_closing_ || num_rounds_ > num_executed; });
    if (num_rounds_ == num_executed) return;
    const Body body = body_;
    void* const context = context_;
    lock.unlock();
    std::exception_ptr error;
    try {
      const StepScope scope;
      body(context, worker);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error_ == nullptr) error_ = std::move(error);
    // The last reference to an exception must not go on this thread while the joining one reads it.
    error = nullptr;
    if (--num_running_ == 0) ended_.notify_all();
  }
}

LaneProgress::LaneProgress(int num_lanes)
    : num_lanes_(num_lanes), counts_(std::make_unique<Count[]>(static_cast<std::size_t>(num_lanes))) {}

void LaneProgress::complete(int lane) {
  counts_[lane].value.fetch_add(1, std::memory_order_seq_cst);
  // Either this sees the waiting thread, or that thread, which says so before it looks, sees the new count.
  if (num_waiting_.load(std::memory_order_seq_cst) == 0) return;
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

bool LaneProgress::wait_until(int lane, std::uint64_t count) {
  if (failed()) return false;
  if (completed(lane) >= count) return true;
  std::unique_lock lock(mutex_);
  num_waiting_.fetch_add(1, std::memory_order_seq_cst);
  changed_.wait(lock, [&] { return failed() || counts_[lane].value.load(std::memory_order_seq_cst) >= count; });
  num_waiting_.fetch_sub(1, std::memory_order_relaxed);
  return !failed();
}

void LaneProgress::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failed()) error_ = std::move(error);
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

void LaneProgress::rethrow() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    error = error_;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

void LaneProgress::reset() {
  const std::lock_guard lock(mutex_);
  for (int lane = 0; lane < num_lanes_; ++lane) counts_[lane].value.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  error_ = nullptr;
}

}  // namespace sectionflow

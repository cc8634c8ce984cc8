// A stage that has what comes before it walked on a thread of its own.

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "data/pipeline/cursor.h"
#include "data/pipeline/worker_pool.h"

namespace sectionflow {
namespace {

class PrefetchCursor : public Cursor {
 public:
  PrefetchCursor(const PrefetchOptions& options, CursorPtr before, PipelineContext& context)
      : options_(options), before_(std::move(before)), context_(context) {}
  ~PrefetchCursor() override {
    context_.stop();
    stop_thread();
  }

  void begin(std::int64_t epoch) override {
    stop_thread();
    epoch_ = epoch;
    before_->begin(epoch);
    delivered_ = state_of(*before_);
  }

  bool next(PipelineItem& item) override {
    // Begun here, and not where the cursor is placed: nobody else uses what comes before from now on.
    if (!thread_.joinable()) thread_ = start_thread("prefetch", "leave prefetch out", [this] { make_ahead(); });
    std::unique_lock lock(mutex_);
    wait_for_next(lock);
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      // The thread has ended. It stands behind what was left out last, too.
      delivered_ = state_of(*before_);
      return false;
    }
    Entry entry = std::move(ready_.front());
    ready_.pop_front();
    ready_bytes_ -= entry.bytes;
    lock.unlock();
    change_.notify_all();
    item = std::move(entry.item);
    delivered_ = std::move(entry.state);
    return true;
  }

  void look_ahead(const LookAtTensor& look) const override {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return;
    for (const auto& [name, tensor] : ready_.front().item.example) look(name, tensor);
  }

  std::int64_t skip(std::int64_t count) override {
    PipelineItem item;
    std::int64_t skipped = 0;
    while (skipped < count) {
      // What came before has thrown for an example that is left out now, and that it need not have made.
      if (has_failed()) restore_to(*this, epoch_, delivered_);
      if (!thread_.joinable()) {
        const std::int64_t skipped_before = before_->skip(count - skipped);
        delivered_ = state_of(*before_);
        return skipped + skipped_before;
      }
      if (!next(item)) break;
      ++skipped;
    }
    return skipped;
  }

  void save(StateWriter& state) const override { state.append(delivered_); }
  void restore(std::int64_t epoch, StateReader& state) override {
    stop_thread();
    epoch_ = epoch;
    before_->restore(epoch, state);
    delivered_ = state_of(*before_);
  }
  PipelineItem remake(std::int64_t epoch, RecipeReader& recipe) override {
    stop_thread();
    return before_->remake(epoch, recipe);
  }

 private:
  struct Entry {
    PipelineItem item;
    CursorState state;  // behind it
    std::size_t bytes = 0;
  };

  void wait_for_next(std::unique_lock<std::mutex>& lock) {
    change_.wait(lock, [this] { return !ready_.empty() || finished_; });
  }
  /// Whether an exception comes next.
  bool has_failed() {
    if (!thread_.joinable()) return false;
    std::unique_lock lock(mutex_);
    wait_for_next(lock);
    return ready_.empty() && error_ != nullptr;
  }

  /// Waits for what is being made, and drops what was not taken.
  void stop_thread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    change_.notify_all();
    if (thread_.joinable()) thread_.join();
    thread_ = {};
    ready_.clear();
    ready_bytes_ = 0;
    finished_ = stopping_ = false;
    error_ = nullptr;
  }

  bool has_capacity() const {
    return ready_.empty() ||
           (ready_.size() < static_cast<std::size_t>(options_.batches) && ready_bytes_ < options_.max_bytes);
  }

  void make_ahead() {
    std::exception_ptr error;
    try {
      while (true) {
        {
          std::unique_lock lock(mutex_);
          change_.wait(lock, [this] { return stopping_ || has_capacity(); });
          if (stopping_) return;
        }
        Entry entry;
        if (!before_->next(entry.item)) break;
        entry.state = state_of(*before_);
        entry.bytes = counted_bytes(entry.item.example);
        const std::lock_guard lock(mutex_);
        ready_bytes_ += entry.bytes;
        ready_.push_back(std::move(entry));
        change_.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    finished_ = true;
    change_.notify_all();
  }

  const PrefetchOptions& options_;
  const CursorPtr before_;
  PipelineContext& context_;
  std::int64_t epoch_ = 0;
  CursorState delivered_;  // behind what next() gave last

  mutable std::mutex mutex_;        // guards what follows
  std::condition_variable change_;  // of any of it
  std::deque<Entry> ready_;
  std::size_t ready_bytes_ = 0;
  bool finished_ = false;     // nothing more comes: the end, or error_
  bool stopping_ = false;     // the thread is to end
  std::exception_ptr error_;  // what ended the making
  std::jthread thread_;       // last: ends before what it uses
};

}  // namespace

CursorPtr make_prefetch_cursor(const PrefetchOptions& options, CursorPtr before, PipelineContext& context) {
  return std::make_unique<PrefetchCursor>(options, std::move(before), context);
}

}  // namespace sectionflow

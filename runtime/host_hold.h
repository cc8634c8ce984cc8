#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sectionflow {

/// Bytes of a session's host memory that somebody beside its programs has, such as a snapshot that is still being
/// written to disk. It counts in the budget as long as it lives. Threads: any may end it.
struct HostHold {
  const std::size_t num_bytes = 0;
  /// Called where a program, or with `is_idle` another hold, needs the bytes: returns when the hold has ended.
  const std::function<void()> give_back{};
  /// Nobody reads the bytes: they are kept because their owner is likely to want as many again.
  std::atomic<bool> is_idle = false;
};

/// Keeps what programs and holds take of host memory together below its budget. Threads: any number at once, but for
/// hold() and make_place_for(), which are the session's, since they have holds given back.
class HostHolds {
 public:
  explicit HostHolds(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}

  /// A hold of so many bytes; nullptr where they do not fit beside other holds and what programs have taken so far.
  std::shared_ptr<HostHold> hold_free(std::size_t num_bytes, std::function<void()> give_back);
  /// The same; idle holds are given back, the oldest first, until there is place.
  std::shared_ptr<HostHold> hold(std::size_t num_bytes, const std::function<void()>& give_back);
  /// For a program that reaches `peak_bytes`: has holds given back, the oldest first, until it fits beside them.
  void make_place_for(std::size_t peak_bytes);
  /// What holds have now.
  std::size_t held_bytes() const;
  /// Whether it is one of these.
  bool has(const HostHold& hold) const;

 private:
  std::size_t count() const;
  std::size_t programs_bytes() const;
  std::vector<std::weak_ptr<HostHold>> all_holds() const;
  static void end(const std::weak_ptr<HostHold>& hold);

  const std::size_t budget_bytes_;
  mutable std::mutex mutex_;        // guards what follows
  std::size_t programs_bytes_ = 0;  // the highest peak so far: pages of the pool stay where they have been touched
  std::vector<std::weak_ptr<HostHold>> holds_;
};

}  // namespace sectionflow

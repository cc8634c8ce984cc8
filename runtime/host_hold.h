#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sectionflow {

/// Bytes of a session's host memory that somebody beside its programs has, such as a snapshot that is still being
/// written to disk. It counts in the budget as long as it lives. Threads: any may end it.
struct HostHold {
  std::size_t num_bytes = 0;
  /// Called where a program needs the bytes: returns when the hold has ended.
  std::function<void()> give_back{};
};

/// Keeps what programs and holds take of host memory together below its budget. Threads: any number at once; what gives
/// a hold back is called on that of make_place_for.
class HostHolds {
 public:
  explicit HostHolds(std::size_t budget_bytes) : budget_bytes_(budget_bytes) {}

  /// A hold of so many bytes; nullptr where they do not fit beside other holds and what programs have taken so far.
  std::shared_ptr<HostHold> hold(std::size_t num_bytes, std::function<void()> give_back);
  /// For a program that reaches `peak_bytes`: has holds given back, the oldest first, until it fits beside them.
  void make_place_for(std::size_t peak_bytes);
  /// What holds have now.
  std::size_t held_bytes() const;

 private:
  std::size_t count() const;

  const std::size_t budget_bytes_;
  mutable std::mutex mutex_;        // guards what follows
  std::size_t programs_bytes_ = 0;  // the highest peak so far: pages of the pool stay where they have been touched
  std::vector<std::weak_ptr<HostHold>> holds_;
};

}  // namespace sectionflow

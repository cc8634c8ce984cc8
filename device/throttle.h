#pragma once

#include <cstddef>
#include <cstdint>

namespace sectionflow {

/// When bytes that enter a link of a fixed rate have passed it: arithmetic over a clock of nanoseconds, without a wait.
///
/// The link is a token bucket. Bytes queue behind those before them, and a link that was idle has saved up at most
/// kBurst. A caller that came back late because its sleep was too long loses nothing, so that the rate over a long time
/// is exactly the one given.
class LinkClock {
 public:
  /// What an idle link has saved up, in nanoseconds of its rate: so little that a transfer of a few pages already takes
  /// the time that it would on a real link.
  static constexpr std::int64_t kBurst = 20'000;
  static constexpr double kLeastRate = 1000;

  /// Throws: ArgumentError unless the rate is finite and at least kLeastRate.
  explicit LinkClock(double bytes_per_second);

  /// The time at which `bytes` that come at `now` have passed. With `goes_on` they belong to the same transfer as the
  /// bytes before, so that whatever time has gone by between the two was the link's, not idle.
  std::int64_t finish(std::int64_t now, std::size_t bytes, bool goes_on = false);
  /// Says that the caller, who wanted to wait up to finish(...), has done so at `now`.
  void waited_until(std::int64_t now);

 private:
  double nanoseconds_per_byte_;
  std::int64_t free_at_ = 0;  // when all bytes so far have passed
  double fraction_ = 0;       // of a nanosecond, of the bytes so far
  std::int64_t late_ = 0;     // how much longer than up to free_at_ the last wait took
  bool used_ = false;
};

/// Holds a transfer down to the rate of a link. One a direction; used by one thread at a time.
class Throttle {
 public:
  /// 0: unlimited. Throws: ArgumentError unless it is 0, or finite and at least LinkClock::kLeastRate.
  explicit Throttle(double bytes_per_second);

  bool unlimited() const { return unlimited_; }
  /// Returns when `bytes` have had the time to pass the link; at once where the throttle is unlimited. Sleeps, and
  /// spins for the last 50 microseconds at most.
  void pass(std::size_t bytes) { wait(enter(bytes)); }
  /// The two halves of pass: bytes enter the link, and the caller may do something (copy them) before it waits until
  /// they have passed. `goes_on`: see LinkClock::finish.
  [[nodiscard]] std::int64_t enter(std::size_t bytes, bool goes_on = false);
  void wait(std::int64_t until);

 private:
  bool unlimited_;
  LinkClock clock_;
};

/// memcpy at the rate of the throttle, in pieces of 256 KiB: the last byte lies at `to` when this returns, and the call
/// takes bytes / rate (or longer where memory is slower). Never opens a parallel region: copy threads call it too.
void copy_throttled(Throttle& throttle, void* to, const void* from, std::size_t bytes);

}  // namespace sectionflow

#include "device/throttle.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPieceBytes = 256_KiB;
// What a sleep takes longer than asked for on a quiet machine: the timer slack of a thread.
constexpr std::int64_t kSpin = 50'000;

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// Returns the time when it has become `time` or later.
std::int64_t wait_until(std::int64_t time) {
  std::int64_t now = now_nanoseconds();
  if (now < time - kSpin) {
    std::this_thread::sleep_until(Clock::time_point(std::chrono::nanoseconds(time - kSpin)));
    now = now_nanoseconds();
  }
  while (now < time) now = now_nanoseconds();
  return now;
}

}  // namespace

LinkClock::LinkClock(double bytes_per_second) : nanoseconds_per_byte_(1e9 / bytes_per_second) {
  // A slower link would let the clock overflow.
  SF_CHECK(std::isfinite(bytes_per_second) && bytes_per_second >= kLeastRate, ArgumentError, "link_bandwidth is ",
           bytes_per_second, " bytes a second; wanted at least ", kLeastRate, ", or 0 for a link without a limit");
}

std::int64_t LinkClock::finish(std::int64_t now, std::size_t bytes, bool goes_on) {
  if (!used_) {
    free_at_ = now;
    used_ = true;
  } else if (!goes_on) {
    // Sleeping too long was not the caller's being idle.
    free_at_ = std::max(free_at_, now - late_ - kBurst);
  }
  const double duration = static_cast<double>(bytes) * nanoseconds_per_byte_ + fraction_;
  const double whole = std::floor(duration);
  fraction_ = duration - whole;
  free_at_ += static_cast<std::int64_t>(whole);
  late_ = 0;
  return free_at_;
}

void LinkClock::waited_until(std::int64_t now) {
  late_ = std::max<std::int64_t>(0, now - free_at_);
}

Throttle::Throttle(double bytes_per_second)
    : unlimited_(bytes_per_second == 0), clock_(unlimited_ ? LinkClock::kLeastRate : bytes_per_second) {}

std::int64_t Throttle::enter(std::size_t bytes, bool goes_on) {
  return unlimited_ ? 0 : clock_.finish(now_nanoseconds(), bytes, goes_on);
}

void Throttle::wait(std::int64_t until) {
  if (!unlimited_) clock_.waited_until(wait_until(until));
}

void copy_throttled(Throttle& throttle, void* to, const void* from, std::size_t bytes) {
  if (throttle.unlimited()) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    const std::size_t piece = std::min(kPieceBytes, bytes - done);
    const std::int64_t passed = throttle.enter(piece, done > 0);
    std::memcpy(static_cast<std::byte*>(to) + done, static_cast<const std::byte*>(from) + done, piece);
    throttle.wait(passed);
  }
}

}  // namespace sectionflow

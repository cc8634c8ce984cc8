#pragma once

#include <concepts>
#include <cstddef>

#include "base/export.h"

namespace SF_API sectionflow {

/// How much memory a session may take: bytes, or a share of what the device has free when the session is made.
class MemoryLimit {
 public:
  /// 0: all of it.
  constexpr MemoryLimit(std::size_t bytes = 0) : bytes_(bytes) {}  // NOLINT: a number of bytes is a limit
  /// 0.5 would be no byte, and so all of it: write 50_percent for half.
  template <std::floating_point Number>
  MemoryLimit(Number) = delete;
  /// `share`: above 0, at most 1.
  static constexpr MemoryLimit share_of_free(double share) {
    MemoryLimit limit;
    limit.share_ = share;
    return limit;
  }

  /// Whether it says anything.
  constexpr bool is_limited() const { return bytes_ > 0 || share_ != kNoShare; }
  /// The limit in bytes on a device that has `available` bytes. Throws: ArgumentError for a share that is none.
  std::size_t bytes_of(std::size_t available) const;

  friend constexpr bool operator==(const MemoryLimit&, const MemoryLimit&) = default;

 private:
  static constexpr double kNoShare = -1;

  std::size_t bytes_;
  double share_ = kNoShare;
};

/// Hard limits of a session's tiers, in bytes.
struct TierBudgets {
  std::size_t device = 0;  ///< variables included
  std::size_t host = 0;
  std::size_t disk = 0;

  friend bool operator==(const TierBudgets&, const TierBudgets&) = default;
};

inline namespace literals {
/// 90_percent of what is free.
constexpr MemoryLimit operator""_percent(unsigned long long percent) {
  return MemoryLimit::share_of_free(static_cast<double>(percent) / 100);
}
}  // namespace literals

}  // namespace sectionflow

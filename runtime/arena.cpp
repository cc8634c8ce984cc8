#include "runtime/arena.h"

#include <algorithm>
#include <array>

namespace sectionflow {
namespace {

// As a float a NaN whose last byte is 0xFF, which no finite number above -1.7e38 has: a float that is written over it
// always changes its last byte.
constexpr std::array<std::byte, 4> kCanary = {std::byte{0xD7}, std::byte{0xC3}, std::byte{0xA5}, std::byte{0xFF}};

}  // namespace

void Arena::begin_measurement(std::size_t offset, std::size_t window_bytes) {
  const std::size_t wanted = std::min(num_bytes() - offset, window_bytes) + offset;
  window_end_ = memory_->discardable_offset(wanted);
  memory_->discard_from(window_end_);
  for (std::size_t i = offset; i < window_end_; ++i) data()[i] = kCanary[i % kCanary.size()];
}

std::size_t Arena::highest_touched(std::size_t offset) {
  const std::size_t beyond = memory_->touched_end(window_end_);
  if (beyond > window_end_) return beyond;
  std::size_t end = window_end_;
  while (end > offset && data()[end - 1] == kCanary[(end - 1) % kCanary.size()]) --end;
  return end;
}

}  // namespace sectionflow

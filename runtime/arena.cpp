#include "runtime/arena.h"

#include <algorithm>
#include <cstdint>

#include "device/mapped_memory.h"

namespace sectionflow {
namespace {

// The last byte of a float, or of an integer, that is written over the canary must differ from the canary's: 0xEA is
// none of 0x00, 0x7F and 0xFF (small and negative integers, infinities, NaNs, poison), nor that of a guard; as a
// float's it stands for numbers from -1.5e26 to -3.8e25.
constexpr std::uint32_t kCanary = 0xEAA5C3D7;

}  // namespace

std::size_t Arena::window_end(std::size_t offset, std::size_t window_bytes) {
  // A program without buffers may have its region begin behind the end of the block.
  const std::size_t wanted = offset + std::min(num_bytes() - std::min(offset, num_bytes()), window_bytes);
  return memory_->discardable_offset(wanted);
}

void Arena::begin_measurement(std::size_t offset, std::size_t window_bytes) {
  window_end_ = window_end(offset, window_bytes);
  touched_beyond_ = 0;
  memory_->discard_from(window_end_);
  // Offsets of the planned region are multiples of the canary's length.
  if (offset < window_end_) memory_->fill_words(offset, window_end_ - offset, kCanary);
}

void Arena::extend_measurement(std::size_t offset, std::size_t window_bytes) {
  const std::size_t end = window_end(offset, window_bytes);
  if (end <= window_end_) return;
  const std::size_t beyond = memory_->touched_end(window_end_);
  if (beyond > window_end_) touched_beyond_ = std::max(touched_beyond_, beyond);
  memory_->fill_words(window_end_, end - window_end_, kCanary);
  window_end_ = end;
}

std::size_t Arena::highest_touched(std::size_t offset) {
  if (offset > window_end_) return offset;
  const std::size_t beyond = memory_->touched_end(window_end_);
  if (beyond > window_end_) return beyond;
  return std::max(touched_beyond_, memory_->changed_end(offset, window_end_, kCanary));
}

HostPool::HostPool(std::size_t num_bytes)
    : block_(map_memory(num_bytes, {.tier = "host", .option = "host_memory", .must_be_there = true})) {}

}  // namespace sectionflow

#include "runtime/arena.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sectionflow {
namespace {

// The last byte of a float, or of an integer, that is written over the canary must differ from the canary's: 0xEA is
// none of 0x00, 0x7F and 0xFF (small and negative integers, infinities, NaNs, poison), nor that of a guard; as a
// float's it stands for numbers from -1.5e26 to -3.8e25.
constexpr std::array<std::byte, 4> kCanary = {std::byte{0xD7}, std::byte{0xC3}, std::byte{0xA5}, std::byte{0xEA}};

// The canary many times over, so that it is written and compared block by block.
constexpr std::size_t kBlockBytes = 4096;
constexpr auto kBlock = [] {
  std::array<std::byte, kBlockBytes> block{};
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = kCanary[i % kCanary.size()];
  return block;
}();

}  // namespace

void Arena::begin_measurement(std::size_t offset, std::size_t window_bytes) {
  // A program without buffers may have its region begin behind the end of the block.
  const std::size_t wanted = offset + std::min(num_bytes() - std::min(offset, num_bytes()), window_bytes);
  window_end_ = memory_->discardable_offset(wanted);
  memory_->discard_from(window_end_);
  // Offsets of the planned region are multiples of the canary's length.
  for (std::size_t begin = offset; begin < window_end_; begin += kBlockBytes) {
    std::memcpy(data() + begin, kBlock.data(), std::min(kBlockBytes, window_end_ - begin));
  }
}

std::size_t Arena::highest_touched(std::size_t offset) {
  if (offset > window_end_) return offset;
  const std::size_t beyond = memory_->touched_end(window_end_);
  if (beyond > window_end_) return beyond;
  std::size_t blocks = (window_end_ - offset + kBlockBytes - 1) / kBlockBytes;
  while (blocks > 0) {
    const std::size_t begin = offset + (blocks - 1) * kBlockBytes;
    std::size_t length = std::min(kBlockBytes, window_end_ - begin);
    if (std::memcmp(data() + begin, kBlock.data(), length) == 0) {
      --blocks;
      continue;
    }
    while (data()[begin + length - 1] == kBlock[length - 1]) --length;
    return begin + length;
  }
  return offset;
}

}  // namespace sectionflow

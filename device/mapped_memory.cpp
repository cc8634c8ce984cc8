#include "device/mapped_memory.h"

#include <emmintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/device_queues.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

/// A word many times over, so that it is written and compared block by block.
struct WordBlock {
  std::array<std::byte, 4096> bytes;

  explicit WordBlock(std::uint32_t word) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(word)) std::memcpy(bytes.data() + i, &word, sizeof(word));
  }
};

class MappedMemory final : public DeviceMemory {
 public:
  MappedMemory(std::size_t num_bytes, const MappingUse& use) : num_bytes_(num_bytes), tier_(use.tier) {
    SF_CHECK(reserve() && take(use.must_be_there), DeviceError, use.tier, ": ", bytes_text(num_bytes),
             " of memory were refused: ", std::strerror(errno), "; try a smaller ", use.option);
    // Advice only: large pages spare page faults, and their absence changes nothing else.
    (void)madvise(data_, mapped_bytes(), MADV_HUGEPAGE);
  }
  ~MappedMemory() override { munmap(data_, reserved_bytes()); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  std::byte* data() override { return data_; }
  std::size_t num_bytes() const override { return num_bytes_; }

  std::size_t discardable_offset(std::size_t offset) const override {
    const auto base = reinterpret_cast<std::uintptr_t>(data_);
    return std::min(round_up(base + offset, kLargePage) - base, num_bytes_);
  }
  void discard_from(std::size_t offset) override {
    const std::size_t first = discardable_offset(offset);
    if (first < num_bytes_) (void)madvise(data_ + first, num_bytes_ - first, MADV_DONTNEED);
  }
  std::size_t touched_end(std::size_t offset) const override {
    // In chunks, so that a huge untouched block needs no huge table.
    constexpr std::size_t kChunk = std::size_t{1} << 30;
    const std::size_t first = discardable_offset(offset);
    std::vector<unsigned char> resident(kChunk / kPage);
    std::size_t end = offset;
    for (std::size_t begin = first; begin < num_bytes_; begin += kChunk) {
      const std::size_t length = std::min(kChunk, num_bytes_ - begin);
      SF_CHECK(mincore(data_ + begin, length, resident.data()) == 0, DeviceError, tier_,
               ": mincore: ", std::strerror(errno));
      for (std::size_t page = 0; page * kPage < length; ++page) {
        if ((resident[page] & 1U) != 0) end = std::min(num_bytes_, begin + (page + 1) * kPage);
      }
    }
    return end;
  }

  void fill_words(std::size_t offset, std::size_t num_bytes, std::uint32_t word) override {
    const WordBlock block(word);
    for (std::size_t begin = offset; begin < offset + num_bytes; begin += block.bytes.size()) {
      std::memcpy(data_ + begin, block.bytes.data(), std::min(block.bytes.size(), offset + num_bytes - begin));
    }
  }
  std::size_t changed_end(std::size_t offset, std::size_t end, std::uint32_t word) override {
    const WordBlock block(word);
    std::size_t blocks = end > offset ? (end - offset + block.bytes.size() - 1) / block.bytes.size() : 0;
    for (; blocks > 0; --blocks) {
      const std::size_t begin = offset + (blocks - 1) * block.bytes.size();
      std::size_t length = std::min(block.bytes.size(), end - begin);
      if (std::memcmp(data_ + begin, block.bytes.data(), length) == 0) continue;
      while (data_[begin + length - 1] == block.bytes[length - 1]) --length;
      return begin + length;
    }
    return offset;
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;
  static constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;

  /// Addresses for the pages, and for one behind them that stays nobody's: the kernel joins neighbours, and one large
  /// page would lie in two blocks, of which who touches one touches the other.
  bool reserve() {
    errno = ENOMEM;
    if (num_bytes_ > kMost) return false;
    void* reserved = mmap(nullptr, reserved_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return false;
    data_ = static_cast<std::byte*>(reserved);
    return true;
  }
  bool take(bool must_be_there) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | (must_be_there ? 0 : MAP_NORESERVE);
    if (mmap(data_, mapped_bytes(), PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED) return true;
    const int why = errno;
    munmap(data_, reserved_bytes());
    errno = why;
    return false;
  }

  std::size_t mapped_bytes() const { return round_up(num_bytes_ > 0 ? num_bytes_ : 1, kPage); }
  std::size_t reserved_bytes() const { return mapped_bytes() + kPage; }
  std::size_t num_bytes_;
  const char* tier_;
  std::byte* data_ = nullptr;
};

class PinnedMemory final : public DeviceMemory {
 public:
  PinnedMemory(std::size_t num_bytes, const MappingUse& use, DeviceQueues& queues)
      : queues_(queues), memory_(map_memory(num_bytes, use)) {
    if (num_bytes > 0) queues_.pin(memory_->data(), num_bytes);
  }
  ~PinnedMemory() override {
    if (memory_->num_bytes() > 0) queues_.unpin(memory_->data());
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() override { return memory_->data(); }
  std::size_t num_bytes() const override { return memory_->num_bytes(); }
  // Pinned pages must not be given back.
  void discard_from(std::size_t) override {}
  std::size_t touched_end(std::size_t offset) const override { return offset; }
  std::size_t discardable_offset(std::size_t) const override { return memory_->num_bytes(); }
  void fill_words(std::size_t offset, std::size_t num_bytes, std::uint32_t word) override {
    memory_->fill_words(offset, num_bytes, word);
  }
  std::size_t changed_end(std::size_t offset, std::size_t end, std::uint32_t word) override {
    return memory_->changed_end(offset, end, word);
  }

 private:
  DeviceQueues& queues_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace

std::unique_ptr<DeviceMemory> map_memory(std::size_t num_bytes, const MappingUse& use) {
  return std::make_unique<MappedMemory>(num_bytes, use);
}

std::unique_ptr<DeviceMemory> map_pinned_memory(std::size_t num_bytes, const MappingUse& use, DeviceQueues& queues) {
  return std::make_unique<PinnedMemory>(num_bytes, use, queues);
}

namespace {

/// By stores that write whole lines of memory without reading them first, as ordinary stores have to.
void stream(std::byte* to, const std::byte* from, std::size_t num_bytes) {
  constexpr std::size_t kVector = sizeof(__m128i), kLine = 64;
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(num_bytes, (kLine - misaligned) % kLine);
  std::memcpy(to, from, head);
  std::size_t i = head;
  for (; i + kLine <= num_bytes; i += kLine) {
    for (std::size_t j = i; j < i + kLine; j += kVector) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + j), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j)));
    }
  }
  std::memcpy(to + i, from + i, num_bytes - i);
  // Such stores may otherwise be seen after later ones.
  _mm_sfence();
}

}  // namespace

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t num_bytes) {
  parallel_for(static_cast<std::int64_t>(num_bytes), std::int64_t{1} << 20, [&](std::int64_t begin, std::int64_t end) {
    stream(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  });
}

}  // namespace sectionflow

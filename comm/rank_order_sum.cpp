#include "comm/rank_order_sum.h"

#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "comm/communicator.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kAlignedElements = 16;
// Far more than fits any memory, and far from overflow in bytes.
constexpr std::int64_t kMostElements = std::int64_t{1} << 56;

/// The calling thread's treatment of denormals is that of the compute team while this lives, and then as it was.
class DenormalsAreZero {
 public:
  DenormalsAreZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kInputsAreZero); }
  ~DenormalsAreZero() { _mm_setcsr(before_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kInputsAreZero = 0x0040;
  unsigned before_;
};

// Signed integers must not overflow; unsigned ones wrap around.
float added(float a, float b) {
  return a + b;
}
std::int64_t added(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

/// Blocks are summed aside: the sum may lie where one of the parts does.
template <class T>
void add_blocks(std::span<const T* const> parts, const T* start, T* sum, std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  std::array<T, kBlock> block;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    const T* first = start != nullptr ? start : parts[0];
    std::copy_n(first + begin, size, block.data());
    for (std::size_t rank = start != nullptr ? 0 : 1; rank < parts.size(); ++rank) {
      const T* part = parts[rank] + begin;
      T* const to = block.data();
      for (std::int64_t i = 0; i < size; ++i) to[i] = added(to[i], part[i]);
    }
    std::copy_n(block.data(), size, sum + begin);
  }
}

void check_elements(std::int64_t elements, int ranks) {
  SF_CHECK(elements >= 0 && elements <= kMostElements, ArgumentError, "chunks of ", elements,
           " elements; wanted 0 to 2^56");
  SF_CHECK(ranks >= 1, ArgumentError, "chunks for ", ranks, " ranks; wanted at least 1");
}

}  // namespace

Chunk chunk_of(std::int64_t elements, int rank, int ranks) {
  check_elements(elements, ranks);
  SF_CHECK(rank >= 0 && rank < ranks, ArgumentError, "the chunk of rank ", rank, " of ", ranks, "; wanted 0 to ",
           ranks - 1);
  const std::int64_t share = (elements + ranks - 1) / ranks;
  const std::int64_t stretch = (share + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
  return {std::min(rank * stretch, elements), std::min((rank + 1) * stretch, elements)};
}

std::size_t scratch_of_a_rank(std::size_t chunk_bytes) {
  return std::min(chunk_bytes, kPiecesOnTheWay * kPieceBytes);
}

std::size_t Communicator::reduce_workspace(std::int64_t elements, int ranks, Dtype dtype) {
  check_elements(elements, ranks);
  SF_CHECK(dtype == Dtype::f32 || dtype == Dtype::i64, ArgumentError, "ranks add f32 and i64, not ",
           is_dtype(dtype) ? dtype_name(dtype) : "a number that is no dtype");
  const Chunk longest = chunk_of(elements, 0, ranks);
  const auto bytes = static_cast<std::size_t>(longest.end) * dtype_bytes(dtype);
  return static_cast<std::size_t>(ranks - 1) * scratch_of_a_rank(bytes);
}

void add_in_rank_order(std::span<const float* const> parts, const float* start, float* sum, std::int64_t count) {
  const DenormalsAreZero scope;
  add_blocks(parts, start, sum, count);
}

void add_in_rank_order(std::span<const std::int64_t* const> parts, const std::int64_t* start, std::int64_t* sum,
                       std::int64_t count) {
  add_blocks(parts, start, sum, count);
}

}  // namespace sectionflow

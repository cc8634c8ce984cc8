#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/export.h"

namespace SF_API sectionflow {

using StepIndex = std::int32_t;

/// Where bytes lie: in device memory, in the pool of host memory, in the swap file.
enum class Tier { device, host, disk };
inline constexpr int kNumTiers = 3;
/// "device memory", "host memory", "disk".
const char* tier_name(Tier tier);
/// What offsets in a tier are multiples of: off the device whole pages, so that the disk reads and writes the bytes of
/// the host tier where they lie.
constexpr std::size_t alignment_of(Tier tier) {
  return tier == Tier::device ? kBufferAlignment : kPageBytes;
}

/// The steps during which some bytes are needed, both ends inclusive.
struct Life {
  StepIndex first = 0;
  StepIndex last = 0;

  bool overlaps(const Life& other) const { return first <= other.last && other.first <= last; }
  friend bool operator==(const Life&, const Life&) = default;
};

/// Bytes that want a place for the time of a life.
struct Storage {
  std::size_t bytes = 0;
  Life life;
  /// The place is already decided (bytes that live on from an earlier plan).
  std::optional<std::size_t> fixed_offset;
  Tier tier = Tier::device;
};

/// How full one tier gets.
struct TierPeak {
  /// The highest end, offset + bytes, of any storage: the smallest region that will do.
  std::size_t peak_bytes = 0;
  /// The largest sum of live bytes at any step, sizes rounded up to the alignment of the tier.
  std::size_t lower_bound_bytes = 0;
  /// The first step at which that sum is reached.
  StepIndex fullest_step = 0;
};

/// Where each storage lies, relative to the start of the planned region of its tier.
struct MemoryPlan : TierPeak {  // its own figures are those of device memory
  /// One a storage, multiples of its tier's alignment.
  std::vector<std::size_t> offsets;
  TierPeak host, disk;
};

/// Gives every storage an offset in its tier such that no two whose lives overlap share a byte. The result depends on
/// the arguments alone: no clock, no addresses, no randomness without a fixed seed. Storages of zero bytes get offset
/// 0. The peak comes close to the lower bound, and reaches it for most schedules of networks; schedule/skyline.h says
/// how. The effort is bounded: well under a second for 10,000 storages. Throws: ArgumentError when a life ends before
/// it begins, when a fixed offset is not a multiple of its tier's alignment, when two fixed storages of overlapping
/// lives overlap, or when sizes and fixed offsets come to more than 2^63 - 1.
MemoryPlan plan_memory(std::span<const Storage> storages);

}  // namespace sectionflow

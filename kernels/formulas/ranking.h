#pragma once

#include <bit>
#include <cstdint>

#include "base/host_device.h"

/// In which order elements of a row are the largest, on every device.
namespace sectionflow::formulas {

/// A number that is larger for the element that comes first: by value, NaN above all, then by the lower index, which is
/// below 2^32. 0 stands below all of them.
SF_HOST_DEVICE inline std::uint64_t rank_of(float x, std::int64_t index) {
  const auto bits = std::bit_cast<std::uint32_t>(x == 0.0F ? 0.0F : x);  // zeros of both signs are equal
  // Bits of positive numbers are ordered as these are; those of negative ones the other way round.
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  const std::uint32_t value = x != x ? 0xFFFFFFFFU : ordered;
  return (static_cast<std::uint64_t>(value) << 32) | (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}

/// The index of the element that has this rank.
SF_HOST_DEVICE inline std::int32_t index_of_rank(std::uint64_t rank) {
  return static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(rank));
}

}  // namespace sectionflow::formulas

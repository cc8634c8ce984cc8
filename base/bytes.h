#pragma once

#include <cstddef>
#include <string>

#include "base/export.h"

namespace SF_API sectionflow {

inline namespace literals {
/// 1_KiB is 1024 bytes.
constexpr std::size_t operator""_KiB(unsigned long long count) {
  return count << 10;
}
/// 1_MiB is 1024 KiB.
constexpr std::size_t operator""_MiB(unsigned long long count) {
  return count << 20;
}
/// 1_GiB is 1024 MiB.
constexpr std::size_t operator""_GiB(unsigned long long count) {
  return count << 30;
}
}  // namespace literals

/// Every buffer starts at a multiple of this many bytes.
inline constexpr std::size_t kBufferAlignment = 256;
/// A page of memory, and what disks are read and written in past the machine's page cache.
inline constexpr std::size_t kPageBytes = 4096;

/// `bytes` rounded up to a multiple of `alignment`, a power of two.
constexpr std::size_t round_up(std::size_t bytes, std::size_t alignment = kBufferAlignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

/// "512 B", "1.50 MiB": three significant digits (four from 1000 to 1023) in the largest binary unit that keeps the
/// number >= 1.
std::string bytes_text(std::size_t bytes);

/// Reads "512MiB", "1.5 GiB", "4096", "4096B", "64KiB" (units: B, KiB, MiB, GiB, TiB; case matters not).
/// Throws: ArgumentError for anything else, decimal units (MB) included, saying what is accepted. A number of 1 to 1023
/// without a unit is refused: it is seldom meant to be bytes, and "45B" says that it is.
std::size_t parse_bytes(const std::string& text);

}  // namespace sectionflow

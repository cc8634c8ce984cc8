#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sectionflow {

/// Whose bytes a block of the swap file holds: part of its checksum, so that bytes are never taken for another
/// tensor's, nor for those of another cycle.
struct BlockLabel {
  /// Of a variable, whose bytes stay from cycle to cycle.
  static constexpr std::uint64_t kAnyCycle = static_cast<std::uint64_t>(-1);

  std::uint64_t tensor = 0;  ///< a number of the caller's
  int section = -1;          ///< whose tensor it is; -1 where there are no sections
  std::uint64_t cycle = 0;

  bool operator==(const BlockLabel&) const = default;
};

/// XXH3-64 of a label and the bytes behind it, which may come in pieces. Source: Yann Collet, xxHash 0.8.
class BlockChecksum {
 public:
  explicit BlockChecksum(const BlockLabel& label);
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStateBytes = 576;
  alignas(64) std::byte state_[kStateBytes];
};

}  // namespace sectionflow

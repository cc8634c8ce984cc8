#pragma once

#include <cstdint>
#include <cstring>

#include "device/parallel.h"

namespace sectionflow {

/// Copies on the compute team; nothing to do where both are the same bytes. Otherwise they must not overlap.
inline void copy_bytes(void* to, const void* from, std::size_t num_bytes) {
  if (to == from) return;
  constexpr std::int64_t kGrainBytes = std::int64_t{1} << 18;
  parallel_for(static_cast<std::int64_t>(num_bytes), kGrainBytes, [=](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace sectionflow

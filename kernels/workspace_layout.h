#pragma once

#include <cstddef>

#include "base/bytes.h"

namespace sectionflow {

/// Cuts one workspace into parts, each at a multiple of 64 bytes: the width of a cache line and of a vector.
class WorkspaceLayout {
 public:
  /// Where the next part of `num_bytes` starts.
  std::size_t add(std::size_t num_bytes) {
    const std::size_t offset = num_bytes_;
    num_bytes_ += round_up(num_bytes, 64);
    return offset;
  }
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  std::size_t num_bytes_ = 0;
};

/// The part of a workspace that starts at `offset`.
inline void* workspace_part(void* workspace, std::size_t offset) {
  return static_cast<std::byte*>(workspace) + offset;
}

}  // namespace sectionflow

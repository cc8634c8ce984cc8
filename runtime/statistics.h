#pragma once

#include <cstddef>
#include <cstdint>

#include "base/export.h"

namespace SF_API sectionflow {

/// Figures of a session's device memory, by the names that users of TensorFlow Large Model Support know.
struct Statistics {
  std::int64_t num_allocs = 0;        ///< buffers begun
  std::size_t bytes_in_use = 0;       ///< now: variables, and border tensors of a pending forward half
  std::size_t peak_bytes_in_use = 0;  ///< highest end of any buffer since the last clearing
  std::size_t largest_alloc_size = 0;
  std::size_t bytes_limit = 0;     ///< the budget
  std::size_t bytes_reserved = 0;  ///< the arena: the budget too
  std::size_t peak_bytes_reserved = 0;
  std::size_t bytes_reservable_limit = 0;
  std::size_t bytes_active = 0;  ///< in use less inactive; nothing is ever inactive in a planned arena
  std::size_t peak_bytes_active = 0;
  std::size_t bytes_inactive = 0;
  std::size_t bytes_reclaimed = 0;  ///< moved to the host to free device memory
  std::int64_t num_single_reclaims = 0;
  std::int64_t num_full_reclaims = 0;
  std::size_t context_bytes = 0;            ///< beside the budget: see ProgramReport::context_bytes
  std::size_t planned_peak_bytes = 0;       ///< of the last program executed
  std::size_t measured_peak_bytes = 0;      ///< of the last program executed while measuring; 0 if none was
  std::size_t planned_host_peak_bytes = 0;  ///< the same for host memory
  std::size_t measured_host_peak_bytes = 0;
  std::size_t planned_disk_peak_bytes = 0;  ///< and on disk
  std::size_t measured_disk_peak_bytes = 0;
  std::int64_t programs_kept = 0;     ///< compiled, one for each fetches and signature, and still there
  std::size_t program_bytes = 0;      ///< host memory that these take: see SessionOptions::program_memory
  std::int64_t programs_evicted = 0;  ///< that had to go to make room for others
};

}  // namespace sectionflow

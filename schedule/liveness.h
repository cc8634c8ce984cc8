#pragma once

#include <memory>
#include <vector>

#include "base/export.h"
#include "kernels/kernel.h"
#include "schedule/plan_memory.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// Which buffers share bytes, and for how long the bytes are needed.
struct StorageAssignment {
  std::vector<Storage> storages;
  std::vector<int> storage_of_buffer;  ///< one a buffer
};

/// Gives each buffer a storage. A step whose kernel can write an output over an input that dies there gets both in one
/// storage: this is where in-place execution is decided. `guard_bytes` are added behind every
/// storage in device memory.
StorageAssignment assign_storages(const Schedule& schedule, const std::vector<std::unique_ptr<Kernel>>& kernels,
                                  std::size_t guard_bytes);

}  // namespace sectionflow

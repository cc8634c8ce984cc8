#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"

namespace sectionflow {

/// One cudaMalloc on a GPU. Filling and looking at it is for when the GPU's queues are empty. Throws: DeviceError with
/// the bytes that were refused and those that are free.
std::unique_ptr<DeviceMemory> allocate_cuda_memory(std::size_t num_bytes, int ordinal);
/// What of a GPU's memory this process has from allocate_cuda_memory, for whichever session.
std::size_t allocated_cuda_bytes(int ordinal);

}  // namespace sectionflow

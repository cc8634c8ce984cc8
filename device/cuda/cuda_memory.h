#pragma once

#include <cstddef>
#include <memory>

#include "device/device_queues.h"

namespace sectionflow {

/// One cudaMalloc. Throws: DeviceError with the bytes that were refused and those that are free.
std::unique_ptr<DeviceMemory> allocate_cuda_memory(std::size_t num_bytes);
/// Host memory that is pinned for the device's own copies; `queues` must outlive it. Throws: DeviceError.
std::unique_ptr<DeviceMemory> allocate_pinned_memory(std::size_t num_bytes, DeviceQueues& queues);

}  // namespace sectionflow

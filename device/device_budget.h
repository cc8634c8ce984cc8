#pragma once

#include <cstddef>

#include "device/device.h"
#include "device/memory_limit.h"

namespace sectionflow {

/// The bytes of device memory that a session on `device` gets with `limit`; opens the device to ask it.
/// Throws: DeviceError, ArgumentError for a share that is none.
std::size_t device_budget(const DeviceSpec& device, const MemoryLimit& limit);

}  // namespace sectionflow

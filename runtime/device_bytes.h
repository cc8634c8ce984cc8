#pragma once

#include <cstddef>

#include "device/device.h"

namespace sectionflow {

// For checks alone: on a device with queues each call waits until all that was given to them is done.

/// Fills bytes of device memory.
void fill_device_bytes(Device& device, std::byte* bytes, std::size_t count, int value);
/// Whether bytes of device memory are all `value`.
bool device_bytes_are(Device& device, const std::byte* bytes, std::size_t count, int value);

}  // namespace sectionflow

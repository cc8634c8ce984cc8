#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"
#include "kernels/kernel.h"

namespace sectionflow {

// For checks and measurements: on a device with queues each call waits until all that was given to them is done.

/// Fills bytes of device memory.
void fill_device_bytes(Device& device, std::byte* bytes, std::size_t count, int value);
/// Whether bytes of device memory are all `value`.
bool device_bytes_are(Device& device, const std::byte* bytes, std::size_t count, int value);

/// A launch, to the end of its work. `arguments` without queue and random state.
void launch_and_wait(Kernel& kernel, KernelArguments arguments, Device& device);

/// Copies between device memory and pinned memory of the host by a device's queues.
class QueueCopies {
 public:
  QueueCopies(DeviceQueues& queues, std::size_t num_bytes);
  void copy_in(std::byte* device);
  void copy_out(const std::byte* device);

 private:
  DeviceQueues& queues_;
  std::unique_ptr<DeviceMemory> host_;
};

}  // namespace sectionflow

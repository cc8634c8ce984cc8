#include "runtime/device_bytes.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "device/device_queues.h"

namespace sectionflow {

void fill_device_bytes(Device& device, std::byte* bytes, std::size_t count, int value) {
  if (count == 0) return;
  DeviceQueues* queues = device.queues();
  if (queues == nullptr) {
    std::memset(bytes, value, count);
    return;
  }
  queues->synchronize();
  queues->fill(Queue::compute, bytes, value, count);
  queues->synchronize();
}

bool device_bytes_are(Device& device, const std::byte* bytes, std::size_t count, int value) {
  std::vector<std::byte> copy;
  if (device.queues() != nullptr) {
    copy.resize(count);
    device.copy_to_host(copy.data(), bytes, count);
    bytes = copy.data();
  }
  return std::all_of(bytes, bytes + count, [&](std::byte b) { return b == static_cast<std::byte>(value); });
}

}  // namespace sectionflow

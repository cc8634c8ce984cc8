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

void launch_and_wait(Kernel& kernel, KernelArguments arguments, Device& device) {
  DeviceQueues* queues = device.queues();
  if (queues != nullptr) {
    arguments.queue = queues->native(Queue::compute);
    arguments.random_state = queues->random_state();
  }
  kernel.launch(arguments);
  if (queues != nullptr) queues->synchronize();
}

QueueCopies::QueueCopies(DeviceQueues& queues, std::size_t num_bytes)
    : queues_(queues), host_(queues.allocate_host(num_bytes)) {}

void QueueCopies::copy_in(std::byte* device) {
  queues_.copy_from_host(Queue::copy_in, device, host_->data(), host_->num_bytes());
  queues_.synchronize();
}

void QueueCopies::copy_out(const std::byte* device) {
  queues_.copy_to_host(Queue::copy_out, host_->data(), device, host_->num_bytes());
  queues_.synchronize();
}

}  // namespace sectionflow

#include "device/device_budget.h"

namespace sectionflow {

std::size_t device_budget(const DeviceSpec& device, const MemoryLimit& limit) {
  return limit.bytes_of(make_device(device, 1)->total_memory());
}

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <memory>

#include "base/export.h"
#include "device/device.h"

namespace SF_API sectionflow {

/// The session's one block of device memory, of the budget's size: variables at its start, then the planned region that
/// all programs use in turn. Also measures, without knowing any plan, how far a run really reached.
class Arena {
 public:
  Arena(Device& device, std::size_t num_bytes) : memory_(device.allocate(num_bytes)) {}

  std::byte* data() { return memory_->data(); }
  std::size_t num_bytes() const { return memory_->num_bytes(); }

  /// Fills the region from `offset` on with a canary: the next `window_bytes` by writing, what is behind by giving its
  /// pages back to the machine.
  void begin_measurement(std::size_t offset, std::size_t window_bytes);
  /// The end of the last byte from `offset` on that has been written since begin_measurement(offset, ...).
  std::size_t highest_touched(std::size_t offset);

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::size_t window_end_ = 0;
};

}  // namespace sectionflow

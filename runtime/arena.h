#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/export.h"
#include "device/device.h"

namespace SF_API sectionflow {

/// One block of memory whose bytes are planned, and which measures, without knowing any plan, how far a run really
/// reached. The session's block of device memory, of the budget's size, is one: variables at its start, then the
/// planned region that all programs use in turn. The pool of the host tier is another.
class Arena {
 public:
  Arena(Device& device, std::size_t num_bytes) : memory_(device.allocate(num_bytes)) {}
  explicit Arena(std::unique_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {}

  std::byte* data() { return memory_->data(); }
  std::size_t num_bytes() const { return memory_->num_bytes(); }

  /// Fills the region from `offset` on with a canary: the next `window_bytes` by writing, what is behind by giving its
  /// pages back to the machine.
  void begin_measurement(std::size_t offset, std::size_t window_bytes);
  /// While something is measured from `offset` on, has the next `window_bytes` from there shown to the byte; what has
  /// been written stays as it is, and counts. Nobody may need what lies behind the window that was measured so far.
  void extend_measurement(std::size_t offset, std::size_t window_bytes);
  /// The end of the last byte from `offset` on that has been written since begin_measurement(offset, ...).
  std::size_t highest_touched(std::size_t offset);

 private:
  std::size_t window_end(std::size_t offset, std::size_t window_bytes);

  std::unique_ptr<DeviceMemory> memory_;
  std::size_t window_end_ = 0;
  std::size_t touched_beyond_ = 0;  // before the window was extended: the end of the last page touched behind it
};

/// The host tier's one block of memory: an anonymous mapping of the planned bytes, rounded up to pages and no further,
/// so that it can never hold more than was planned. Pages are the machine's until they are first touched. Move-only;
/// gives the memory back when it ends.
class HostPool {
 public:
  /// Throws: DeviceError, naming the host tier and the bytes, when the machine refuses; it always refuses more than it
  /// has at all (unless told to overcommit).
  explicit HostPool(std::size_t num_bytes);

  std::byte* data() { return block_.data(); }
  std::size_t num_bytes() const { return block_.num_bytes(); }

  /// Fills `window_bytes` from `offset` on with a canary, and gives the pages behind them back: see Arena.
  void begin_measurement(std::size_t offset, std::size_t window_bytes) {
    block_.begin_measurement(offset, window_bytes);
  }
  /// Moves the end of that window up: see Arena.
  void extend_measurement(std::size_t offset, std::size_t window_bytes) {
    block_.extend_measurement(offset, window_bytes);
  }
  /// The end of the last byte from `offset` on that has been written since: the measured peak of the host tier.
  std::size_t highest_touched(std::size_t offset) { return block_.highest_touched(offset); }

 private:
  Arena block_;
};

}  // namespace sectionflow

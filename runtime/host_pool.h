#pragma once

#include <cstddef>

#include "runtime/arena.h"

namespace sectionflow {

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

#pragma once

#include <cstddef>
#include <memory>

#include "device/device.h"

namespace sectionflow {

/// What a block of the host's memory is for, in the words of an error text.
struct MappingUse {
  const char* tier = "";       ///< "cpu", "host"
  const char* option = "";     ///< of the session that makes the block smaller
  bool must_be_there = false;  ///< more than the machine has at all is refused now, and not when it is touched
};

/// An anonymous mapping of `num_bytes`, rounded up to pages only, and of a page behind them that nobody can touch:
/// pages come when they are first touched, as zeros, and no large page is one of two blocks. Throws: DeviceError when
/// the machine refuses, naming the tier and the bytes.
std::unique_ptr<DeviceMemory> map_memory(std::size_t num_bytes, const MappingUse& use);

/// The same, pinned for the queues, which must outlive it. No page of it is given back before it ends. Throws: as
/// map_memory, also where the machine refuses to pin.
std::unique_ptr<DeviceMemory> map_pinned_memory(std::size_t num_bytes, const MappingUse& use, DeviceQueues& queues);

/// Copies within the host's memory, by the calling thread's compute team, past the machine's caches: these keep what
/// they have. For copies that nobody reads soon, onto pages that have been touched; onto fresh ones, which have just
/// been zeroed in the caches, it is slower than a plain copy.
void copy_past_caches(std::byte* to, const std::byte* from, std::size_t num_bytes);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <memory>

#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// Gives the memory that batches are made in, as that of a session, which a GPU copies from by itself (batch_memory()).
/// Threads: any number at once; what it gives is let go on whatever thread is the last to have it.
class BatchMemory {
 public:
  virtual ~BatchMemory() = default;
  /// `num_bytes`, 1 or more, or a few more, at an address that `alignment`, a power of 2, divides; what lies there is
  /// anything. They go back when the last pointer to them is gone. nullptr where there are none to give: the batch then
  /// lies in memory of its own.
  virtual std::shared_ptr<std::byte[]> allocate(std::size_t num_bytes, std::size_t alignment) = 0;
};

/// A tensor to be filled, whose values are anything: in the memory, where that gives some, otherwise in memory of its
/// own. `memory` may be nullptr. Throws: ShapeError when the shape has an unknown dimension.
HostTensor unfilled_tensor(const TensorType& type, BatchMemory* memory);

}  // namespace sectionflow

#include "device/memory_limit.h"

#include "base/error.h"

namespace sectionflow {

std::size_t MemoryLimit::bytes_of(std::size_t available) const {
  if (share_ == kNoShare) return bytes_ == 0 ? available : bytes_;
  SF_CHECK(share_ > 0 && share_ <= 1, ArgumentError, "a memory limit of ", share_ * 100,
           " percent; wanted more than 0, at most 100", hint("write 90_percent, or a number of bytes"));
  return static_cast<std::size_t>(static_cast<double>(available) * share_);
}

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sectionflow {

/// Reads and writes of one file that are in flight at the same time, through io_uring. Nothing is in flight when it
/// ends. Used by one thread at a time.
class DiskRing {
 public:
  /// Opens a ring for `depth` slots, if wanted; is_open() says whether it did: kernels before 5.6 lack it, sandboxes
  /// refuse it, and SectionFlow may have been built without liburing.
  DiskRing(bool wanted, std::size_t depth);
  ~DiskRing();
  DiskRing(const DiskRing&) = delete;
  DiskRing& operator=(const DiskRing&) = delete;

  bool is_open() const { return ring_ != nullptr; }

  /// Begins to read or write for a slot that has nothing in flight. false: the kernel takes no more; then neither this
  /// nor anything later is begun, and what is in flight goes on.
  [[nodiscard]] bool begin(std::size_t slot, bool is_write, int descriptor, std::byte* bytes, std::size_t num_bytes,
                           std::uint64_t offset);
  /// Waits until what was begun for the slot has ended: the bytes carried, or a negative errno.
  int finish(std::size_t slot);

 private:
  struct Ring;
  std::unique_ptr<Ring> ring_;
};

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/export.h"
#include "base/tensor_view.h"

namespace SF_API sectionflow {

/// Which kind of machine a session computes on.
enum class DeviceKind { cpu };

/// The user's choice of a device.
struct DeviceSpec {
  DeviceKind kind = DeviceKind::cpu;
};
/// The CPU with its memory.
inline DeviceSpec cpu() {
  return {};
}

/// One block of device memory. Move-only; gives the memory back when it ends. Pages that nobody touches cost nothing.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::byte* data() = 0;
  virtual std::size_t num_bytes() const = 0;
  /// Gives the pages from `offset` on back to the machine; their content is lost. Rounds up to whole large pages.
  virtual void discard_from(std::size_t offset) = 0;
  /// The end of the last page from `offset` on that has been touched since it was discarded; `offset` when there is
  /// none.
  virtual std::size_t touched_end(std::size_t offset) const = 0;
  /// The next offset, from `offset` on, at which discard_from works exactly; at most num_bytes().
  virtual std::size_t discardable_offset(std::size_t offset) const = 0;
};

/// The machine, thinly wrapped: memory and copies. One a session. Threads: used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;
  /// Threads of the compute team.
  virtual int threads() const = 0;
  /// All memory that the machine has, in bytes.
  virtual std::size_t total_memory() const = 0;
  /// Throws: DeviceError when the machine refuses.
  virtual std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) = 0;
  virtual void copy_from_host(void* device, const void* host, std::size_t num_bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t num_bytes) = 0;
  /// Makes the calling thread fit to prepare and launch kernels of this device, until the returned object ends.
  [[nodiscard]] virtual std::unique_ptr<void, void (*)(void*)> enter() = 0;
};

/// All memory of the machine that the process runs on, in bytes.
std::size_t machine_memory();

/// Throws: DeviceError when there is no such device, ArgumentError for a negative number of threads.
/// `threads`: of the compute team; 0 takes every core that the process may use.
std::unique_ptr<Device> make_device(const DeviceSpec& spec, int threads);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/export.h"
#include "base/host_tensor.h"
#include "device/choice_store.h"
#include "device/device_spec.h"

namespace SF_API sectionflow {

/// One block of memory. Gives the memory back when it ends. Pages that nobody touches cost nothing on the CPU.
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
  /// Fills `num_bytes` from `offset` on, a multiple of 4, with `word`, again and again.
  virtual void fill_words(std::size_t offset, std::size_t num_bytes, std::uint32_t word) = 0;
  /// The end of the last byte in [offset, end) that fill_words(offset, end - offset, word) has not left so; `offset`
  /// when there is none.
  virtual std::size_t changed_end(std::size_t offset, std::size_t end, std::uint32_t word) = 0;
};

class DeviceQueues;

/// The machine, thinly wrapped: memory and copies. One a session. Threads: used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;
  virtual std::string name() const = 0;
  /// What decides the bits beside the number of threads: "oneDNN 2.6.3, avx512". Empty where that is not told.
  virtual std::string arithmetic() const { return {}; }
  /// Threads of the compute team.
  virtual int threads() const = 0;
  /// All memory that a session may have, in bytes: the machine's on the CPU; on a GPU what was free when it was opened.
  virtual std::size_t total_memory() const = 0;
  /// Device memory that is taken beside what is allocated here, in bytes: what the GPU's context, code and libraries,
  /// and other programs, keep for themselves. 0 on the CPU.
  virtual std::size_t context_bytes() const { return 0; }
  /// Throws: DeviceError when the machine refuses.
  virtual std::unique_ptr<DeviceMemory> allocate(std::size_t num_bytes) = 0;
  virtual void copy_from_host(void* device, const void* host, std::size_t num_bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t num_bytes) = 0;
  /// Makes the calling thread fit to prepare and launch kernels of this device, until the returned object ends.
  [[nodiscard]] virtual std::unique_ptr<void, void (*)(void*)> enter() = 0;
  /// The queues of a device that works beside the calling thread; nullptr for one whose calls return when all is done.
  /// copy_from_host and copy_to_host of such a device wait until all queues are empty, and return when they are done.
  virtual DeviceQueues* queues() { return nullptr; }

  /// Which algorithms of libraries kernels of this device run.
  DeviceChoices& choices() { return choices_; }
  const DeviceChoices& choices() const { return choices_; }
  /// Whether a problem of AlgorithmChoices is one of this device with the libraries that it has.
  virtual bool has_problem(const std::string& /*problem*/) const { return false; }

 private:
  DeviceChoices choices_;
};

/// All memory of the machine that the process runs on, in bytes.
std::size_t machine_memory();

/// Throws: DeviceError when there is no such device, ArgumentError for a negative number of threads.
/// `threads`: of the compute team; 0 takes every core that the process may use.
std::unique_ptr<Device> make_device(const DeviceSpec& spec, int threads);

}  // namespace sectionflow

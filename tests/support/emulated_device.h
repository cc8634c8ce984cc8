#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "device/cuda_module.h"
#include "device/device.h"

namespace sectionflow::testing_support {

/// Whose kernels an emulated GPU has: those of CUDA, emulated thread by thread, or those of the CPU, each as one piece
/// of work.
enum class EmulatedKernels { cuda, cpu };

/// How an emulated GPU behaves.
struct EmulatedOptions {
  EmulatedKernels kernels = EmulatedKernels::cuda;
  std::size_t memory = std::size_t{1} << 30;
  std::size_t context = 0;          ///< bytes that are taken beside all budgets, and by each recording once more
  std::uint64_t seed = 0;           ///< decides which of the queues goes on next, and the order of blocks and threads
  bool refuses_recordings = false;  ///< at their end, for want of memory
  bool refuses_feeds = false;       ///< to have a recording copy from elsewhere
  std::size_t pinnable = std::size_t{1} << 40;  ///< bytes of host memory in all
  bool allow_tf32 = false;                      ///< as DeviceSpec::allow_tf32
  /// Called behind each piece of work with its queue and, of copies, what they were: "copy_in copies 768 bytes in".
  std::function<void(const std::string&)> watch{};
};

/// A GPU that the host emulates: DeviceKind::cuda, with memory of its own, kernels, and three queues whose work is
/// put off for as long as nobody waits for it, and then done in an order that the seed draws from those that the events
/// allow. So a wait that is missing shows as other bytes.
std::unique_ptr<Device> make_emulated_device(const EmulatedOptions& options = {});

/// While it lives, emulated GPUs that are made draw other orders for another number. A kernel in which two threads
/// touch one place in global memory, one of them writing, gives other bytes in some of them: that memory is not
/// watched, so that runs which must agree are given orders that differ.
class EmulatedOrder {
 public:
  explicit EmulatedOrder(std::uint64_t number);
  ~EmulatedOrder();
  EmulatedOrder(const EmulatedOrder&) = delete;
  EmulatedOrder& operator=(const EmulatedOrder&) = delete;
};

/// While it lives, cuda(0) is an emulated GPU.
class EmulatedCuda {
 public:
  explicit EmulatedCuda(const EmulatedOptions& options = {});
  ~EmulatedCuda();
  EmulatedCuda(const EmulatedCuda&) = delete;
  EmulatedCuda& operator=(const EmulatedCuda&) = delete;

 private:
  CudaModule module_;
};

}  // namespace sectionflow::testing_support

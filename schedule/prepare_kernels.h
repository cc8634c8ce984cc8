#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/export.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "schedule/schedule.h"

namespace SF_API sectionflow {

/// Bytes behind a kernel's scratch that are written before each launch and checked after it: a library that writes past
/// the scratch it asked for is found out at once.
inline constexpr std::size_t kScratchGuardBytes = 64;
/// The bytes of so much scratch and of what is written behind it.
inline std::size_t guarded_scratch(std::size_t scratch) {
  return round_up(scratch, kScratchGuardBytes) + kScratchGuardBytes;
}

/// The kernels of one program, one a node, mode and kind of part, shared by repeated executions. Several drafts of a
/// program's schedule share them too, so that each kernel is made once. All must outlive it.
class KernelCache {
 public:
  KernelCache(const ConcreteGraph& graph, Device& device) : graph_(graph), device_(device) {}

  /// Makes what is missing, numbers the kernels in Step::slot, and books their scratch: as buffers of one step, or, of
  /// all that communicate in one half of a cycle, as one buffer, so that what is computed meanwhile waits for none of
  /// them. Throws: ArgumentError when the device has no kernel.
  void prepare(Schedule& schedule);

  const std::vector<std::unique_ptr<Kernel>>& kernels() const { return kernels_; }
  std::vector<std::unique_ptr<Kernel>> take() { return std::move(kernels_); }

 private:
  const ConcreteGraph& graph_;
  Device& device_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::map<std::tuple<NodeId, bool, int, bool>, int> slots_;  // by node, whether a replay, parts, whether it adds
};

}  // namespace sectionflow

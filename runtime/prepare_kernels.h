#pragma once

#include <memory>
#include <vector>

#include "base/export.h"
#include "device/device.h"
#include "kernels/kernel.h"
#include "runtime/schedule.h"

namespace SF_API sectionflow {

/// Bytes behind a kernel's scratch that are written before each launch and checked after it: a library that writes past
/// the scratch it asked for is found out at once.
inline constexpr std::size_t kScratchGuardBytes = 64;

/// Makes the kernels of all compute steps (one a node and mode, shared by repeated executions), numbers them in
/// Step::slot, and books their scratch as buffers of one step. Throws: ArgumentError when the device has no kernel.
std::vector<std::unique_ptr<Kernel>> prepare_kernels(Schedule& schedule, const ConcreteGraph& graph, Device& device);

}  // namespace sectionflow

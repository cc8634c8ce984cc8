#pragma once

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Moves the kernels of a family into those of a kind of device, whether this machine has one or not: for
/// register_family, which has checked them.
void take_kernels(DeviceKind kind, KernelRegistry& family) noexcept;

}  // namespace sectionflow

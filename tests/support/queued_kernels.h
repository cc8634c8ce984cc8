#pragma once

#include "kernels/kernel_registry.h"

namespace sectionflow::testing_support {

/// The kernels of the CPU for a GPU that the host emulates, each launch one piece of work of its queue.
const KernelRegistry& queued_cpu_kernels();

}  // namespace sectionflow::testing_support

#pragma once

#include "kernels/kernel_registry.h"

namespace acme {

/// The kernels for GPUs, in swish.cu.
void add_swish_cuda_kernels(sectionflow::KernelRegistry& registry);

}  // namespace acme

#pragma once

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// The kernels of CUDA: where a library serves an op, the library's first, ours behind it.
const KernelRegistry& cuda_kernels();

// One function a family, in kernels/cuda/<family>.cu.
#define SF_OP_FAMILY(family) void add_##family##_cuda_kernels(KernelRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

}  // namespace sectionflow

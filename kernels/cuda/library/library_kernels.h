#pragma once

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Adds the kernels that cuBLASLt and, where the build has it, cuDNN serve. Each takes the requests that its library
/// promises to compute alike every time, and leaves the others to the kernels behind it.
void add_library_kernels(KernelRegistry& registry);

}  // namespace sectionflow

#include "kernels/kernel_registry.h"

namespace sectionflow {

// Swaps are copies between device and host: the executor carries them, no kernel does.
void add_swap_cpu_kernels(KernelRegistry&) {}

}  // namespace sectionflow

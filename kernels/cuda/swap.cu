#include "kernels/cuda/cuda_kernels.h"

namespace sectionflow {

// Swaps are copies between device and host: the executor carries them, no kernel does.
void add_swap_cuda_kernels(KernelRegistry&) {}

}  // namespace sectionflow

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/widened_kernel.h"

#if defined(__CUDACC__)
#include "kernels/cuda/library/library_kernels.h"
#endif

namespace sectionflow {

const KernelRegistry& cuda_kernels() {
  static const KernelRegistry kernels = [] {
    // One element-wise launch each.
    KernelRegistry all(
        {.widen = gpu::launch_conversion<BFloat16, float>, .round = gpu::launch_conversion<float, BFloat16>});
#if defined(__CUDACC__)
    add_library_kernels(all);
#endif
#define SF_OP_FAMILY(family) add_##family##_cuda_kernels(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return kernels;
}

}  // namespace sectionflow

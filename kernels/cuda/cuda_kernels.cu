#include "kernels/cuda/bf16_conversions.h"
#include "kernels/cuda/cuda_kernels.h"

#if defined(__CUDACC__)
#include "kernels/cuda/library/library_kernels.h"
#endif

namespace sectionflow {

const KernelRegistry& cuda_kernels() {
  static const KernelRegistry kernels = [] {
    KernelRegistry all(gpu::bf16_conversions());
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

#include "kernels/cuda/library/library_kernels.h"

namespace sectionflow {

void add_library_kernels(KernelRegistry& registry) {
  add_cublas_kernels(registry);
#if defined(SF_HAS_CUDNN)
  add_cudnn_kernels(registry);
#endif
}

}  // namespace sectionflow

#include <set>

#include "device/cuda/cuda_check.h"
#include "device/cuda/own_kernels.h"

namespace sectionflow::gpu {
namespace {

/// Made by whoever comes first, whatever the order in which the object's files are initialised. Where sources share a
/// host function, each adds it.
std::set<const void*>& own_kernels() {
  static std::set<const void*> kernels;
  return kernels;
}

}  // namespace

bool add_own_kernel(const void* kernel) {
  own_kernels().insert(kernel);
  return true;
}

std::size_t num_own_kernels() {
  return own_kernels().size();
}

void load_own_kernels() {
  // Asking for its attributes loads a kernel (CUDA's programming guide, lazy loading). CUDA_MODULE_LOADING=EAGER would
  // load ours as well, and with them all that cuBLASLt and cuDNN bring, which is more than many a network takes.
  for (const void* kernel : own_kernels()) {
    cudaFuncAttributes attributes{};
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "loading of the kernels");
  }
}

}  // namespace sectionflow::gpu

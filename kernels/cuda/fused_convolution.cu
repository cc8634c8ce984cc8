#include "graph/ops/fused_convolution.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/fused_parts.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_fused_convolution(const KernelRequest& request) {
  return std::make_unique<FusedParts>(request, cuda_kernels());
}

}  // namespace

void add_fused_convolution_cuda_kernels(KernelRegistry& registry) {
  registry.add("fused_conv2d", make_fused_convolution);
  registry.add("fused_conv3d", make_fused_convolution);
}

}  // namespace sectionflow

#include "graph/ops/fake_quantize.h"
#include "kernels/cuda/chain.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/fake_quantize_family.h"

namespace sectionflow {

void add_fake_quantize_cuda_kernels(KernelRegistry& registry) {
  FakeQuantizeFamily<gpu::LinkedElements>::add(registry);
}

}  // namespace sectionflow

#include "kernels/cuda/combined_rows.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/formulas/scatter.h"

namespace sectionflow {

void add_scatter_cuda_kernels(KernelRegistry& registry) {
  registry.add("scatter", make_scatter<gpu::SortedRows>, Bf16::native);
}

}  // namespace sectionflow

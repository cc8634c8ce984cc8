#include "kernels/formulas/scatter.h"

#include "kernels/cpu/combined_rows.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

void add_scatter_cpu_kernels(KernelRegistry& registry) {
  registry.add("scatter", make_scatter<LoopRows>, Bf16::native);
}

}  // namespace sectionflow

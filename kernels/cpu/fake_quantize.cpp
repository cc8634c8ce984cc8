#include "graph/ops/fake_quantize.h"

#include "kernels/cpu/elementwise.h"
#include "kernels/fake_quantize_family.h"

namespace sectionflow {

void add_fake_quantize_cpu_kernels(KernelRegistry& registry) {
  FakeQuantizeFamily<LoopElements>::add(registry);
}

}  // namespace sectionflow

#include "kernels/cuda/library/library_kernels.h"

namespace sectionflow {

void add_library_kernels(KernelRegistry&) {}

}  // namespace sectionflow

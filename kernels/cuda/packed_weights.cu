#include "base/error.h"
#include "kernels/cuda/cuda_kernels.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> refuse(const KernelRequest& request) {
  throw ArgumentError(error_text_of(request.node.label(), ": its weights were packed for a CPU, and this is ",
                                    request.device.name(),
                                    hint("give the session the graph as it was before the transform pack_weights")));
}

}  // namespace

void add_packed_weights_cuda_kernels(KernelRegistry& registry) {
  registry.add("with_packed_weights", refuse);
}

}  // namespace sectionflow

#include "kernels/kernel_registry.h"

#include "base/error.h"
#include "device/cuda_module.h"

namespace sectionflow {

std::unique_ptr<Kernel> KernelRegistry::make(const KernelRequest& request) const {
  const auto found = factories_.find(request.node.op().name);
  if (found != factories_.end()) {
    for (KernelFactory factory : found->second) {
      if (auto kernel = factory(request)) return kernel;
    }
  }
  std::string types;
  for (const TensorType& type : request.inputs) types += (types.empty() ? "" : ", ") + type.text();
  throw ArgumentError(text_of(request.node.label(), " has no kernel on ", request.device.name(), " for the inputs (",
                              types, ")", found == factories_.end() ? "" : "; try a cast to f32"));
}

const KernelRegistry& kernel_registry(DeviceKind kind) {
  if (kind == DeviceKind::cuda) return cuda_module().kernels();
  static const KernelRegistry cpu_kernels = [] {
    KernelRegistry all;
#define SF_OP_FAMILY(family) add_##family##_cpu_kernels(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return cpu_kernels;
}

}  // namespace sectionflow

#include "kernels/kernel_registry.h"

#include <algorithm>

#include "base/error.h"
#include "device/cuda_module.h"
#include "kernels/cpu/bf16_conversions.h"

namespace sectionflow {

std::unique_ptr<Kernel> KernelRegistry::make(const KernelRequest& request) const {
  const auto found = factories_.find(request.node.op().name);
  if (found != factories_.end()) {
    if (auto kernel = first_kernel(found->second, request)) return kernel;
  }
  std::string types;
  for (const TensorType& type : request.inputs) types += (types.empty() ? "" : ", ") + type.text();
  throw ArgumentError(text_of(request.node.label(), " has no kernel on ", request.device.name(), " for the inputs (",
                              types, ")", found == factories_.end() ? "" : "; try a cast to f32"));
}

std::unique_ptr<Kernel> KernelRegistry::first_kernel(const std::vector<Entry>& entries,
                                                     const KernelRequest& request) const {
  if (!has_bf16(request)) {
    for (const Entry& entry : entries) {
      if (auto kernel = entry.factory(request)) return kernel;
    }
    return nullptr;
  }
  for (const Entry& entry : entries) {
    if (entry.bf16 != Bf16::native) continue;
    if (auto kernel = entry.factory(request)) return kernel;
  }
  return make_widened(request);
}

std::unique_ptr<Kernel> KernelRegistry::make_widened(const KernelRequest& request) const {
  const auto found = factories_.find(request.node.op().name);
  if (found == factories_.end() || conversions_.widen == nullptr || !can_be_widened(request)) return nullptr;
  const KernelRequest of_f32 = widened_request(request);
  for (const Entry& entry : found->second) {
    if (auto kernel = entry.factory(of_f32)) return widened_kernel(request, std::move(kernel), conversions_);
  }
  return nullptr;
}

bool KernelRegistry::has_native_bf16(const std::string& op) const {
  const auto found = factories_.find(op);
  return found != factories_.end() && std::any_of(found->second.begin(), found->second.end(),
                                                  [](const Entry& entry) { return entry.bf16 == Bf16::native; });
}

const KernelRegistry& kernel_registry(DeviceKind kind) {
  if (kind == DeviceKind::cuda) return cuda_module().kernels();
  static const KernelRegistry cpu_kernels = [] {
    KernelRegistry all(cpu_bf16_conversions());
#define SF_OP_FAMILY(family) add_##family##_cpu_kernels(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return cpu_kernels;
}

}  // namespace sectionflow

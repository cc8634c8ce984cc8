#include "kernels/kernel_registry.h"

#include <algorithm>
#include <mutex>

#include "base/error.h"
#include "device/cuda_module.h"
#include "graph/op_def.h"
#include "kernels/registration.h"
#include "kernels/widened_kernel.h"

namespace sectionflow {

// One function a family, in kernels/cpu/<family>.cpp.
#define SF_OP_FAMILY(family) void add_##family##_cpu_kernels(KernelRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

namespace {

KernelRegistry& cpu_kernels() {
  static KernelRegistry registry = [] {
    KernelRegistry all(cpu_bf16_conversions());
#define SF_OP_FAMILY(family) add_##family##_cpu_kernels(all);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY
    return all;
  }();
  return registry;
}

/// Kernels of CUDA that were registered, with or without the module that has the library's.
KernelRegistry& registered_cuda_kernels() {
  static KernelRegistry registry;
  return registry;
}

/// The module's kernels behind those that were registered.
const KernelRegistry& cuda_kernels_with(const KernelRegistry& of_module) {
  static std::mutex mutex;
  static std::map<const KernelRegistry*, KernelRegistry> all;  // one a module: tests have modules of their own
  const std::lock_guard lock(mutex);
  return all.try_emplace(&of_module, of_module, registered_cuda_kernels()).first->second;
}

}  // namespace

void KernelRegistry::add(const std::string& op, KernelFactory factory, Bf16 bf16) {
  SF_CHECK_CODE(factory != nullptr, ArgumentError, ErrorCode::registration, "op '", op, "' got a null pointer; ",
                "wanted a function that makes its kernel");
  factories_[op].push_back({factory, bf16});
}

std::vector<std::string> KernelRegistry::ops() const {
  std::vector<std::string> names;
  for (const auto& [op, entries] : factories_) names.push_back(op);
  return names;
}

const std::vector<KernelRegistry::Entry>* KernelRegistry::entries_of(const std::string& op) const {
  if (const auto found = factories_.find(op); found != factories_.end()) return &found->second;
  for (const KernelRegistry* part : parts_) {
    if (const auto* entries = part->entries_of(op)) return entries;
  }
  return nullptr;
}

std::unique_ptr<Kernel> KernelRegistry::make(const KernelRequest& request) const {
  const auto* entries = entries_of(request.node.op().name);
  if (entries != nullptr) {
    if (auto kernel = first_kernel(*entries, request)) return kernel;
  }
  std::string types;
  for (const TensorType& type : request.inputs) types += (types.empty() ? "" : ", ") + type.text();
  throw ArgumentError(text_of(request.node.label(), " has no kernel on ", request.device.name(), " for the inputs (",
                              types, ")", entries == nullptr ? "" : "; try a cast to f32"));
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
  const auto* entries = entries_of(request.node.op().name);
  if (entries == nullptr || conversions_.widen == nullptr || !can_be_widened(request)) return nullptr;
  const KernelRequest of_f32 = widened_request(request);
  for (const Entry& entry : *entries) {
    if (auto kernel = entry.factory(of_f32)) return widened_kernel(request, std::move(kernel), conversions_);
  }
  return nullptr;
}

bool KernelRegistry::has_native_bf16(const std::string& op) const {
  const auto* entries = entries_of(op);
  return entries != nullptr &&
         std::any_of(entries->begin(), entries->end(), [](const Entry& entry) { return entry.bf16 == Bf16::native; });
}

const KernelRegistry& kernel_registry(DeviceKind kind) {
  return kind == DeviceKind::cuda ? cuda_kernels_with(cuda_module().kernels()) : cpu_kernels();
}

void take_kernels(DeviceKind kind, KernelRegistry& family) noexcept {
  (kind == DeviceKind::cuda ? registered_cuda_kernels() : cpu_kernels()).take(family);
}

}  // namespace sectionflow

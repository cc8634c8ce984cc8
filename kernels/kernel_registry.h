#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace sectionflow {

/// The kernels of one kind of device: for each op a list of factories, best first, the plain one last.
class KernelRegistry {
 public:
  void add(const std::string& op, KernelFactory factory) { factories_[op].push_back(factory); }
  /// The first kernel that takes the request. Throws: ArgumentError when there is none, naming op, types and device.
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;
  bool has(const std::string& op) const { return factories_.contains(op); }

 private:
  std::map<std::string, std::vector<KernelFactory>> factories_;
};

/// The kernels of a kind of device.
const KernelRegistry& kernel_registry(DeviceKind kind);

// One function a family, in kernels/cpu/<family>.cpp.
#define SF_OP_FAMILY(family) void add_##family##_cpu_kernels(KernelRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

}  // namespace sectionflow

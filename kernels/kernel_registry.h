#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/widened_kernel.h"

namespace sectionflow {

/// What a factory knows of bf16.
enum class Bf16 {
  widened,  ///< nothing: it is asked for a kernel of f32, which then works on widened copies (widened_kernel.h)
  native    ///< it takes requests with bf16 tensors as they are, or refuses them itself
};

/// The kernels of one kind of device: for each op a list of factories, best first, the plain one last.
class KernelRegistry {
 public:
  explicit KernelRegistry(Bf16Conversions conversions = {}) : conversions_(conversions) {}

  void add(const std::string& op, KernelFactory factory, Bf16 bf16 = Bf16::widened) {
    factories_[op].push_back({factory, bf16});
  }
  /// The first kernel that takes the request. With bf16 tensors: the first native one, or else the first for f32 around
  /// which they are widened. Throws: ArgumentError when there is none, naming op, types and device.
  std::unique_ptr<Kernel> make(const KernelRequest& request) const;
  /// The kernel for a request with bf16 tensors when none is native: the first for f32 around which they are widened,
  /// or nullptr where that cannot be. Native kernels of arithmetic give the same bits.
  std::unique_ptr<Kernel> make_widened(const KernelRequest& request) const;
  bool has(const std::string& op) const { return factories_.contains(op); }
  /// Whether any of the op's factories takes bf16 as it is.
  bool has_native_bf16(const std::string& op) const;

 private:
  struct Entry {
    KernelFactory factory;
    Bf16 bf16;
  };
  std::unique_ptr<Kernel> first_kernel(const std::vector<Entry>& entries, const KernelRequest& request) const;

  Bf16Conversions conversions_;
  std::map<std::string, std::vector<Entry>> factories_;
};

/// The kernels of a kind of device.
const KernelRegistry& kernel_registry(DeviceKind kind);

// One function a family, in kernels/cpu/<family>.cpp.
#define SF_OP_FAMILY(family) void add_##family##_cpu_kernels(KernelRegistry& registry);
#include "graph/op_list.inc"
#undef SF_OP_FAMILY

}  // namespace sectionflow

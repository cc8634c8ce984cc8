#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/export.h"
#include "kernels/kernel.h"

namespace SF_API sectionflow {

/// A kernel of one function `void(const KernelArguments&)`, which holds what it needs by value.
template <class Function>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Function function, std::size_t workspace_bytes, std::vector<InPlace> in_place)
      : function_(std::move(function)), workspace_bytes_(workspace_bytes), in_place_(std::move(in_place)) {}

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::vector<InPlace> in_place() const override { return in_place_; }
  void launch(const KernelArguments& arguments) override { function_(arguments); }

 private:
  Function function_;
  std::size_t workspace_bytes_;
  std::vector<InPlace> in_place_;
};

/// What a kernel of one function says of itself.
struct FunctionKernelOptions {
  std::size_t workspace_bytes = 0;  ///< as Kernel::workspace_bytes
  std::vector<InPlace> in_place{};  ///< as Kernel::in_place
};

/// The kernel that calls `function(const KernelArguments&)`, which is held by value.
template <class Function>
std::unique_ptr<Kernel> function_kernel(Function function, FunctionKernelOptions options = {}) {
  return std::make_unique<FunctionKernel<Function>>(std::move(function), options.workspace_bytes,
                                                    std::move(options.in_place));
}

/// The host boolean of an input, by which the kernel is made. Throws: InternalError where it is not known.
inline bool host_boolean(const KernelRequest& request, std::size_t input) {
  const std::optional<bool>& known = request.host_booleans[input];
  SF_CHECK(known.has_value(), InternalError, request.node.label(), ": boolean input ", input,
           " is not known on the host");
  return *known;
}

/// Cuts one workspace into parts, each at a multiple of 64 bytes: the width of a cache line and of a vector.
class WorkspaceLayout {
 public:
  /// Where the next part of `num_bytes` starts.
  std::size_t add(std::size_t num_bytes) {
    const std::size_t offset = num_bytes_;
    num_bytes_ += round_up(num_bytes, 64);
    return offset;
  }
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  std::size_t num_bytes_ = 0;
};

/// The part of a workspace that starts at `offset`.
inline void* workspace_part(void* workspace, std::size_t offset) {
  return static_cast<std::byte*>(workspace) + offset;
}

}  // namespace sectionflow

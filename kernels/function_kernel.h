#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "kernels/kernel.h"

namespace sectionflow {

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

struct FunctionKernelOptions {
  std::size_t workspace_bytes = 0;
  std::vector<InPlace> in_place{};
};

template <class Function>
std::unique_ptr<Kernel> function_kernel(Function function, FunctionKernelOptions options = {}) {
  return std::make_unique<FunctionKernel<Function>>(std::move(function), options.workspace_bytes,
                                                    std::move(options.in_place));
}

}  // namespace sectionflow

#pragma once

#include <algorithm>
#include <any>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/fused_convolution.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// A fused convolution by the kernels of its parts, one after the other; all but the first work in place, on y.
class FusedParts final : public Kernel {
 public:
  /// The kernels of the parts come from `registry`, that of the request's device.
  FusedParts(const KernelRequest& request, const KernelRegistry& registry) {
    const auto& options = request.node.options<FusedConvolutionOptions>();
    const TensorType& y = request.outputs[0];
    const std::string rank = std::to_string(options.convolution.steps.stride.size());
    add(request, registry, "conv" + rank + "d", {request.inputs[0], request.inputs[1]}, options.convolution);
    add(request, registry, "bias_add", {y, request.inputs[2]}, BiasAddOptions{options.convolution.steps.format});
    if (request.inputs.size() > 3) add(request, registry, "add", {y, request.inputs[3]}, {});
    if (options.relu) add(request, registry, "relu", {y}, {});
  }

  std::string implementation() const override { return kernels_.front()->implementation() + ", in parts"; }
  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& kernel : kernels_) bytes = std::max(bytes, kernel->workspace_bytes());
    return bytes;
  }
  std::size_t library_bytes() const override {
    std::size_t bytes = 0;
    for (const auto& kernel : kernels_) bytes += kernel->library_bytes();
    return bytes;
  }

  void launch(const KernelArguments& arguments) override {
    const void* y = arguments.outputs[0];
    for (std::size_t i = 0; i < kernels_.size(); ++i) {
      // x and w, then y and what is added to it, b and the residual.
      const bool takes_more = i + 1 < arguments.inputs.size();
      const std::array<const void*, 2> inputs = {i == 0 ? arguments.inputs[0] : y,
                                                 takes_more ? arguments.inputs[i + 1] : nullptr};
      KernelArguments part = arguments;
      part.inputs = inputs;
      kernels_[i]->launch(part);
    }
  }

 private:
  void add(const KernelRequest& request, const KernelRegistry& registry, const std::string& op,
           std::vector<TensorType> inputs, std::any options) {
    // Kernels are made for nodes, and live longer.
    Graph graph;
    std::vector<Value> values;
    for (const TensorType& type : inputs) values.push_back(placeholder(graph, "part", type.shape, type.dtype));
    const Node& node = graph.add_node(op, values, std::move(options), op);
    const std::vector<std::optional<bool>> booleans(inputs.size());
    kernels_.push_back(registry.make({.node = node,
                                      .inputs = std::move(inputs),
                                      .outputs = request.outputs,
                                      .host_booleans = booleans,
                                      .device = request.device}));
  }

  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace sectionflow

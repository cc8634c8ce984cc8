#include "graph/ops/fused_convolution.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/convolution_kernel.h"
#include "kernels/cpu/copies.h"
#include "kernels/fused_parts.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// oneDNN adds bias and residual, and takes the maximum, while a block of y is in registers. The residual lies where y
/// comes to lie, or is copied there first: so a block of y is loaded and stored, and nothing else.
class OneDnnFusedConvolution final : public Kernel, public ReadsOrderedWeights {
 public:
  /// `residual_bytes`: 0 where there is none.
  OneDnnFusedConvolution(OneDnnCall call, OrderedWeights weights, std::size_t residual_bytes)
      : call_(std::move(call)), weights_(std::move(weights)), residual_bytes_(residual_bytes) {
    lay_out();
  }

  std::string implementation() const override { return "onednn " + call_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return call_.library_bytes() + weights_.library_bytes(); }

  std::vector<InPlace> in_place() const override {
    return residual_bytes_ > 0 ? std::vector<InPlace>{{3, 0}} : std::vector<InPlace>{};
  }

  std::size_t weights_input() const override { return 1; }
  const OrderedWeights& weights() const override { return weights_; }
  void take_packed() override {
    weights_.take_packed();
    lay_out();
  }

  void launch(const KernelArguments& arguments) override {
    void* scratchpad = workspace_part(arguments.workspace, scratchpad_at_);
    void* place = workspace_part(arguments.workspace, weights_at_);
    const void* weights = weights_.in_order(arguments.inputs[1], place, scratchpad);
    if (residual_bytes_ > 0) copy_bytes(arguments.outputs[0], arguments.inputs[3], residual_bytes_);
    call_.launch({arguments.inputs[0], weights, arguments.inputs[2], arguments.outputs[0]}, scratchpad);
  }

 private:
  void lay_out() {
    workspace_ = {};
    weights_at_ = workspace_.add(weights_.bytes());
    scratchpad_at_ = workspace_.add(std::max(call_.scratchpad_bytes(), weights_.scratchpad_bytes()));
  }

  OneDnnCall call_;
  OrderedWeights weights_;
  std::size_t residual_bytes_;
  WorkspaceLayout workspace_;
  std::size_t weights_at_ = 0, scratchpad_at_ = 0;
};

/// nullptr where oneDNN has no code made for the machine, or would want the images copied.
std::unique_ptr<Kernel> by_onednn(const KernelRequest& request) {
  const auto& options = request.node.options<FusedConvolutionOptions>();
  const auto problem =
      convolution_problem(request, options.convolution, request.inputs[0].shape, request.inputs[1].shape);
  if (problem.is_empty() || problem.our_x != problem.x) return nullptr;
  OneDnn& onednn = onednn_of(request);
  const bool has_residual = request.inputs.size() > 3;
  OneDnnConvolution words = onednn_words(problem);
  words.bias = {{problem.geometry.filters}, problem.type, dnnl::memory::format_tag::x};
  words.adds_residual = has_residual;
  words.relu = options.relu;
  const auto description = describe_forward(problem, onednn, words);
  const std::string name = description.impl_info_str();
  if (!is_jit(name)) return nullptr;
  // Of SSE4.1, code for depthwise convolutions that adds to what is there ends in a fault (2.6.3).
  if (has_residual && name.find("dw:sse41") != std::string::npos) return nullptr;
  const dnnl::memory::desc weights = description.weights_desc();
  OneDnnCall call(
      onednn, description,
      {{DNNL_ARG_SRC, problem.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, words.bias}, {DNNL_ARG_DST, problem.y}});
  return std::make_unique<OneDnnFusedConvolution>(std::move(call), OrderedWeights(onednn, problem.our_weights, weights),
                                                  has_residual ? request.outputs[0].bytes() : 0);
}

std::unique_ptr<Kernel> in_parts(const KernelRequest& request) {
  return std::make_unique<FusedParts>(request, kernel_registry(DeviceKind::cpu));
}

}  // namespace

void add_fused_convolution_cpu_kernels(KernelRegistry& registry) {
  for (const char* op : {"fused_conv2d", "fused_conv3d"}) {
    registry.add(op, onednn_factory<by_onednn>);
    registry.add(op, in_parts);
  }
}

}  // namespace sectionflow

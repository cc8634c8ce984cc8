#include "graph/ops/conv2d.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "device/cpu_device.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/cpu/onednn_call.h"
#include "kernels/cpu/workspace_layout.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// One convolution in oneDNN's words. Weights may lie as oneDNN likes best, since plain ones fall back to gemm.
struct Problem {
  Conv2dGeometry geometry;
  memory::desc x, y;         // images
  memory::desc any_weights;  // oneDNN chooses
  memory::desc our_weights;  // [KH, KW, C, F], as they are stored
  memory::dims stride, pad_before, pad_after;
};

Problem make_problem(const KernelRequest& request, const Shape& x, const Shape& w, const Shape& y) {
  const Conv2dGeometry g = conv2d_geometry(x, w, request.node.options<Conv2dOptions>(), request.node.label());
  const memory::dims weights = {g.filters, g.channels, g.kernel_height, g.kernel_width};
  return {.geometry = g,
          .x = image_layout(x),
          .y = image_layout(y),
          .any_weights = {weights, memory::data_type::f32, memory::format_tag::any},
          .our_weights = {weights, memory::data_type::f32, memory::format_tag::hwio},
          .stride = {g.stride[0], g.stride[1]},
          .pad_before = {g.pad_before[0], g.pad_before[1]},
          .pad_after = {g.pad_after[0], g.pad_after[1]}};
}

bool starts_with(const char* text, std::string_view start) {
  return std::string_view(text).starts_with(start);
}

/// The forward implementation. oneDNN offers brgconv first, but with few channels its direct kernel is faster: by 10 to
/// 40 % up to 32 filters, equal at 64 (measured on Sapphire Rapids). A rule, not a timing, so that bits never depend on
/// the run.
dnnl::convolution_forward::primitive_desc forward_description(const Problem& problem, const OneDnn& onednn) {
  const dnnl::convolution_forward::desc wanted(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct,
                                               problem.x, problem.any_weights, problem.y, problem.stride,
                                               problem.pad_before, problem.pad_after);
  const dnnl::convolution_forward::primitive_desc first(wanted, user_scratchpad(), onednn.engine);
  const bool few_channels = problem.geometry.filters <= 32 && problem.geometry.channels <= 64;
  if (few_channels && starts_with(first.impl_info_str(), "brgconv")) {
    dnnl::convolution_forward::primitive_desc candidate(wanted, user_scratchpad(), onednn.engine);
    while (candidate.next_impl()) {
      if (starts_with(candidate.impl_info_str(), "jit:avx512")) return candidate;
    }
  }
  return first;
}

/// A convolution, and the reorder of the weights before it or, for their gradient, after it.
class Conv2dKernel : public Kernel {
 public:
  Conv2dKernel(OneDnnCall convolution, OneDnnCall reorder, std::size_t reordered_bytes)
      : convolution_(std::move(convolution)), reorder_(std::move(reorder)) {
    reordered_at_ = workspace_.add(reordered_bytes);
    scratchpad_at_ = workspace_.add(std::max(convolution_.scratchpad_bytes(), reorder_.scratchpad_bytes()));
  }

  std::string implementation() const override { return "onednn " + convolution_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }

 protected:
  /// Weights as the convolution reads them.
  const void* reordered_weights(const void* weights, void* workspace) {
    if (!reorder_.valid()) return weights;
    void* reordered = workspace_part(workspace, reordered_at_);
    reorder_.launch({weights, reordered}, scratchpad(workspace));
    return reordered;
  }
  void* scratchpad(void* workspace) const { return workspace_part(workspace, scratchpad_at_); }

  OneDnnCall convolution_, reorder_;
  std::size_t reordered_at_ = 0, scratchpad_at_ = 0;

 private:
  WorkspaceLayout workspace_;
};

/// Inputs: x or dy, then w. The first two inputs make the only output.
class ImageKernel final : public Conv2dKernel {
 public:
  using Conv2dKernel::Conv2dKernel;
  void launch(const KernelArguments& arguments) override {
    const void* weights = reordered_weights(arguments.inputs[1], arguments.workspace);
    convolution_.launch({arguments.inputs[0], weights, arguments.outputs[0]}, scratchpad(arguments.workspace));
  }
};

/// Inputs: dy, x.
class FilterKernel final : public Conv2dKernel {
 public:
  using Conv2dKernel::Conv2dKernel;
  void launch(const KernelArguments& arguments) override {
    void* dw = arguments.outputs[0];
    void* written = reorder_.valid() ? workspace_part(arguments.workspace, reordered_at_) : dw;
    convolution_.launch({arguments.inputs[1], arguments.inputs[0], written}, scratchpad(arguments.workspace));
    if (reorder_.valid()) reorder_.launch({written, dw}, scratchpad(arguments.workspace));
  }
};

template <class KernelType>
std::unique_ptr<Kernel> make_kernel(OneDnn& onednn, const memory::desc& from, const memory::desc& to,
                                    OneDnnCall convolution, const memory::desc& inner) {
  if (from == to) return std::make_unique<KernelType>(std::move(convolution), OneDnnCall(), 0);
  return std::make_unique<KernelType>(std::move(convolution), make_reorder(onednn, from, to), inner.get_size());
}

/// Where there is nothing to multiply (an empty batch, no channels), sums are zero.
std::unique_ptr<Kernel> zero_kernel(const KernelRequest& request) {
  const std::size_t num_bytes = request.outputs[0].bytes();
  return function_kernel([num_bytes](const KernelArguments& arguments) {
    if (num_bytes > 0) std::memset(arguments.outputs[0], 0, num_bytes);
  });
}

bool is_empty(const Problem& problem) {
  return problem.x.get_size() == 0 || problem.y.get_size() == 0;
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  const Problem problem =
      make_problem(request, request.inputs[0].shape, request.inputs[1].shape, request.outputs[0].shape);
  if (is_empty(problem)) return zero_kernel(request);
  OneDnn& onednn = static_cast<CpuDevice&>(request.device).onednn();
  const auto description = forward_description(problem, onednn);
  const memory::desc weights = description.weights_desc();
  OneDnnCall call(onednn, description,
                  {{DNNL_ARG_SRC, problem.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, problem.y}});
  return make_kernel<ImageKernel>(onednn, problem.our_weights, weights, std::move(call), weights);
}

std::unique_ptr<Kernel> make_backward_input(const KernelRequest& request) {
  const Problem problem =
      make_problem(request, request.outputs[0].shape, request.inputs[1].shape, request.inputs[0].shape);
  if (is_empty(problem)) return zero_kernel(request);
  OneDnn& onednn = static_cast<CpuDevice&>(request.device).onednn();
  const dnnl::convolution_backward_data::desc wanted(dnnl::algorithm::convolution_direct, problem.x,
                                                     problem.any_weights, problem.y, problem.stride, problem.pad_before,
                                                     problem.pad_after);
  const dnnl::convolution_backward_data::primitive_desc description(wanted, user_scratchpad(), onednn.engine,
                                                                    forward_description(problem, onednn));
  const memory::desc weights = description.weights_desc();
  OneDnnCall call(onednn, description,
                  {{DNNL_ARG_DIFF_DST, problem.y}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, problem.x}});
  return make_kernel<ImageKernel>(onednn, problem.our_weights, weights, std::move(call), weights);
}

std::unique_ptr<Kernel> make_backward_filter(const KernelRequest& request) {
  const Problem problem =
      make_problem(request, request.inputs[1].shape, request.outputs[0].shape, request.inputs[0].shape);
  if (is_empty(problem)) return zero_kernel(request);
  OneDnn& onednn = static_cast<CpuDevice&>(request.device).onednn();
  const dnnl::convolution_backward_weights::desc wanted(dnnl::algorithm::convolution_direct, problem.x,
                                                        problem.any_weights, problem.y, problem.stride,
                                                        problem.pad_before, problem.pad_after);
  const dnnl::convolution_backward_weights::primitive_desc description(wanted, user_scratchpad(), onednn.engine,
                                                                       forward_description(problem, onednn));
  const memory::desc weights = description.diff_weights_desc();
  OneDnnCall call(onednn, description,
                  {{DNNL_ARG_SRC, problem.x}, {DNNL_ARG_DIFF_DST, problem.y}, {DNNL_ARG_DIFF_WEIGHTS, weights}});
  return make_kernel<FilterKernel>(onednn, weights, problem.our_weights, std::move(call), weights);
}

}  // namespace

void add_conv2d_cpu_kernels(KernelRegistry& registry) {
  registry.add("conv2d", onednn_factory<make_forward>);
  registry.add("conv2d_backward_input", onednn_factory<make_backward_input>);
  registry.add("conv2d_backward_filter", onednn_factory<make_backward_filter>);
}

}  // namespace sectionflow

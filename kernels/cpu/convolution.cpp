#include "graph/ops/convolution.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "device/instruction_set.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "kernels/cpu/bf16_convolution.h"
#include "kernels/cpu/convolution_kernel.h"
#include "kernels/cpu/sliced_kernel.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/widened_kernel.h"

namespace sectionflow {
namespace {

using dnnl::memory;

/// Dense strides of `dims` in the order of `axes`, outermost first.
memory::dims strides_of(const memory::dims& dims, const std::vector<std::size_t>& axes) {
  memory::dims strides(dims.size());
  memory::dim stride = 1;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    strides[*axis] = stride;
    stride *= dims[*axis];
  }
  return strides;
}

memory::desc weights_layout(const memory::dims& dims, const std::vector<std::size_t>& axes, memory::data_type type) {
  return {dims, type, strides_of(dims, axes)};
}

/// The spatial axes of weights: those behind groups, filters and channels.
std::vector<std::size_t> window_axes_of(const memory::dims& weights, bool grouped) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = grouped ? 3 : 2; axis < weights.size(); ++axis) axes.push_back(axis);
  return axes;
}

}  // namespace

memory::desc ConvolutionProblem::plain_weights(bool filters_last) const {
  const bool grouped = geometry.groups > 1;
  std::vector<std::size_t> axes = window_axes_of(weights, grouped);
  const std::size_t filters = grouped ? 1 : 0, channels = filters + 1;
  if (grouped) axes.push_back(0);
  axes.push_back(filters_last ? channels : filters);
  axes.push_back(filters_last ? filters : channels);
  return weights_layout(weights, axes, type);
}

ConvolutionProblem convolution_problem(const KernelRequest& request, const Shape& x, const Shape& w) {
  return convolution_problem(request, request.node.options<ConvolutionOptions>(), x, w);
}

ConvolutionProblem convolution_problem(const KernelRequest& request, const ConvolutionOptions& options, const Shape& x,
                                       const Shape& w) {
  const Dtype dtype = request.outputs[0].dtype;
  return convolution_problem(convolution_geometry(x, w, options, request.node.label()), {dtype, dtype, dtype});
}

ConvolutionProblem convolution_problem(const ConvolutionGeometry& geometry, const ConvolutionDtypes& dtypes) {
  ConvolutionProblem problem;
  problem.geometry = geometry;
  const ConvolutionGeometry& g = problem.geometry;
  const bool channels_last = g.format == DataFormat::nhwc;
  problem.type = onednn_type(dtypes.w);
  const memory::data_type type_of_x = onednn_type(dtypes.x), type_of_y = onednn_type(dtypes.y);
  problem.our_x = image_layout(g.x_shape(), channels_last, type_of_x);
  problem.our_y = image_layout(g.y_shape(), channels_last, type_of_y);
  ConvolutionGeometry last = g;
  last.format = DataFormat::nhwc;
  problem.x = image_layout(last.x_shape(), true, type_of_x);
  problem.y = image_layout(last.y_shape(), true, type_of_y);
  if (problem.is_empty()) return problem;
  const bool grouped = g.groups > 1;
  problem.weights = {g.filters / g.groups, g.channels / g.groups};
  if (grouped) problem.weights.insert(problem.weights.begin(), g.groups);
  for (const WindowAxis& axis : g.axes) problem.weights.push_back(axis.window);
  // [K..., C / G, F]: the groups lie side by side within F.
  std::vector<std::size_t> axes = window_axes_of(problem.weights, grouped);
  const std::vector<std::size_t> matrix = grouped ? std::vector<std::size_t>{2, 0, 1} : std::vector<std::size_t>{1, 0};
  axes.insert(axes.end(), matrix.begin(), matrix.end());
  problem.our_weights = weights_layout(problem.weights, axes, problem.type);
  return problem;
}

std::unique_ptr<Kernel> zero_kernel(const KernelRequest& request) {
  const std::size_t num_bytes = request.outputs[0].bytes();
  return function_kernel([num_bytes](const KernelArguments& arguments) {
    if (num_bytes > 0) std::memset(arguments.outputs[0], 0, num_bytes);
  });
}

OneDnnConvolution onednn_words(const ConvolutionProblem& problem) {
  OneDnnConvolution words;
  words.x = problem.x;
  words.weights = {problem.weights, problem.type, memory::format_tag::any};
  words.y = problem.y;
  for (const WindowAxis& axis : problem.geometry.axes) {
    words.stride.push_back(axis.stride);
    words.dilation.push_back(axis.dilation - 1);
    words.before.push_back(axis.before);
    words.after.push_back(axis.after);
  }
  return words;
}

namespace {

bool is_brgemm(std::string_view name) {
  return name.starts_with("brg");
}
bool is_strided_brgemm(std::string_view name) {
  return name.starts_with("brgconv_strided");
}
bool is_direct(std::string_view name) {
  return name.starts_with("jit");
}
bool is_direct_for_avx512(std::string_view name) {
  return name.starts_with("jit:avx512");
}

}  // namespace

dnnl::convolution_forward::primitive_desc describe_forward(const ConvolutionProblem& problem, const OneDnn& onednn,
                                                           const OneDnnConvolution& words) {
  const auto first = describe_convolution(onednn, words);
  const bool few_channels = problem.geometry.filters <= 32 && problem.geometry.channels <= 64;
  if (!few_channels || problem.type != memory::data_type::f32 || !is_brgemm(first.impl_info_str())) return first;
  const auto direct = describe_convolution(onednn, words, is_direct_for_avx512);
  return is_direct_for_avx512(direct.impl_info_str()) ? direct : first;
}

namespace {

dnnl::convolution_forward::primitive_desc forward_description(const ConvolutionProblem& problem, const OneDnn& onednn) {
  return describe_forward(problem, onednn, onednn_words(problem));
}

/// The gradient of x. What 3.7 has for windows with a stride takes twice as long as its direct kernel with 32 channels,
/// and as long with 128; of bf16 half as long with 128, and three quarters with windows of one pixel.
dnnl::convolution_backward_data::primitive_desc backward_input_description(const ConvolutionProblem& problem,
                                                                           const OneDnn& onednn) {
  const OneDnnConvolution words = onednn_words(problem);
  const auto forward = forward_description(problem, onednn);
  const auto first = describe_backward_data(onednn, words, forward);
  if (!is_strided_brgemm(first.impl_info_str())) return first;
  if (problem.type == memory::data_type::bf16 && problem.geometry.channels >= 128) return first;
  const auto direct = describe_backward_data(onednn, words, forward, is_direct);
  return is_direct(direct.impl_info_str()) ? direct : first;
}

bool is_not_1x1(std::string_view name) {
  return is_jit(name) && !name.starts_with("jit_1x1");
}

/// What may compute the gradient of the weights. oneDNN's kernels for windows of one pixel gather the pixels that a
/// stride keeps, a vector of channels at a time, into a scratchpad with bytes for the channels that there are: where
/// they fill no vector they write past it, with several threads into the part of the next (2.6.3).
WantedImplementation wanted_backward_filter(const ConvolutionGeometry& g) {
  const bool has_stride =
      std::any_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) { return axis.stride > 1; });
  return has_stride && g.channels / g.groups % 16 != 0 ? is_not_1x1 : is_jit;
}

/// A OneDnnCall that says whose it is.
class ConvolutionCall : public OneDnnCall {
 public:
  using OneDnnCall::OneDnnCall;
  std::string implementation() const { return "onednn " + OneDnnCall::implementation(); }
};
using OneDnnKernel = ConvolutionKernel<ConvolutionCall>;

std::unique_ptr<Kernel> forward(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.inputs[0].shape, request.inputs[1].shape);
  if (problem.is_empty()) return zero_kernel(request);
  if (problem.type == memory::data_type::bf16 && !may_take_bf16(problem.geometry)) return nullptr;
  OneDnn& onednn = onednn_of(request);
  const auto description = forward_description(problem, onednn);
  if (!is_jit(description.impl_info_str())) return nullptr;
  const memory::desc weights = description.weights_desc();
  ConvolutionCall call(onednn, description,
                       {{DNNL_ARG_SRC, problem.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, problem.y}});
  return std::make_unique<OneDnnKernel>(
      onednn, std::move(call),
      std::array<ConvolutionArgument, 2>{{{problem.our_x, problem.x}, {problem.our_weights, weights}}},
      ConvolutionArgument{problem.our_y, problem.y});
}

/// Whether dx is computed as the convolution of dy with the turned window: oneDNN's forward kernels are faster than its
/// backward ones by 10 to 30 % where channels are few (measured on Sapphire Rapids; with 128 channels and more both are
/// at the machine's peak, and turning large weights would cost more than it gains).
bool is_worth_turning(const ConvolutionGeometry& g) {
  const bool is_small = g.groups == 1 && g.channels >= 16 && g.channels <= 64 && g.filters <= 64;
  return is_small && g.num_taps() > 1 && std::all_of(g.axes.begin(), g.axes.end(), [](const WindowAxis& axis) {
           return axis.stride == 1 && axis.dilation == 1 && axis.before < axis.window && axis.after < axis.window;
         });
}

/// The convolution of dy that gives dx: its weights are the turned ones, [K..., C, F] with the channels as filters.
ConvolutionProblem turned(const ConvolutionProblem& problem) {
  ConvolutionProblem result = problem;
  ConvolutionGeometry& g = result.geometry;
  std::swap(g.channels, g.filters);
  for (WindowAxis& axis : g.axes) {
    std::swap(axis.size, axis.out);
    axis.before = axis.window - 1 - axis.before;
    axis.after = axis.window - 1 - axis.after;
  }
  std::swap(result.x, result.y);
  std::swap(result.our_x, result.our_y);
  std::swap(result.weights[0], result.weights[1]);
  result.our_weights = result.plain_weights(false);
  return result;
}

/// Turns the window by 180 degrees, then calls `inner` with it in place of the second input.
class TurningKernel final : public Kernel {
 public:
  TurningKernel(std::unique_ptr<Kernel> inner, std::int64_t num_taps, std::size_t tap_bytes)
      : inner_(std::move(inner)), num_taps_(static_cast<std::size_t>(num_taps)), tap_bytes_(tap_bytes) {
    weights_at_ = workspace_.add(num_taps_ * tap_bytes_);
    inner_at_ = workspace_.add(inner_->workspace_bytes());
  }

  std::string implementation() const override { return inner_->implementation() + ", window turned"; }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return inner_->library_bytes(); }

  void launch(const KernelArguments& arguments) override {
    auto* turned = static_cast<std::byte*>(workspace_part(arguments.workspace, weights_at_));
    const auto* weights = static_cast<const std::byte*>(arguments.inputs[1]);
    for (std::size_t tap = 0; tap < num_taps_; ++tap) {
      std::memcpy(turned + tap * tap_bytes_, weights + (num_taps_ - 1 - tap) * tap_bytes_, tap_bytes_);
    }
    const std::array<const void*, 2> inputs = {arguments.inputs[0], turned};
    KernelArguments inner = arguments;
    inner.inputs = inputs;
    inner.workspace = workspace_part(arguments.workspace, inner_at_);
    inner_->launch(inner);
  }

 private:
  std::unique_ptr<Kernel> inner_;
  std::size_t num_taps_, tap_bytes_;
  WorkspaceLayout workspace_;
  std::size_t weights_at_ = 0, inner_at_ = 0;
};

/// nullptr where oneDNN has no kernel for AVX-512.
std::unique_ptr<Kernel> turning_kernel(const ConvolutionProblem& problem, OneDnn& onednn) {
  const ConvolutionProblem forward = turned(problem);
  const auto description = forward_description(forward, onednn);
  const std::string_view implementation = description.impl_info_str();
  if (!is_jit(description.impl_info_str()) || implementation.find("avx512") == std::string_view::npos) return nullptr;
  const memory::desc weights = description.weights_desc();
  ConvolutionCall call(onednn, description,
                       {{DNNL_ARG_SRC, forward.x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, forward.y}});
  auto inner = std::make_unique<OneDnnKernel>(
      onednn, std::move(call),
      std::array<ConvolutionArgument, 2>{{{forward.our_x, forward.x}, {forward.our_weights, weights}}},
      ConvolutionArgument{forward.our_y, forward.y});
  const ConvolutionGeometry& g = problem.geometry;
  return std::make_unique<TurningKernel>(std::move(inner), g.num_taps(),
                                         static_cast<std::size_t>(g.channels * g.filters) * sizeof(float));
}

std::unique_ptr<Kernel> backward_x(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.outputs[0].shape, request.inputs[1].shape);
  if (problem.is_empty()) return zero_kernel(request);
  if (problem.type == memory::data_type::bf16 && !may_take_bf16(problem.geometry)) return nullptr;
  OneDnn& onednn = onednn_of(request);
  if (problem.type == memory::data_type::f32 && is_worth_turning(problem.geometry)) {
    if (auto kernel = turning_kernel(problem, onednn)) return kernel;
  }
  const auto description = backward_input_description(problem, onednn);
  if (!is_jit(description.impl_info_str())) return nullptr;
  const memory::desc weights = description.weights_desc();
  ConvolutionCall call(onednn, description,
                       {{DNNL_ARG_DIFF_DST, problem.y}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_SRC, problem.x}});
  return std::make_unique<OneDnnKernel>(
      onednn, std::move(call),
      std::array<ConvolutionArgument, 2>{{{problem.our_y, problem.y}, {problem.our_weights, weights}}},
      ConvolutionArgument{problem.our_x, problem.x});
}

std::unique_ptr<Kernel> backward_filter(const KernelRequest& request) {
  const auto problem = convolution_problem(request, request.inputs[1].shape, request.outputs[0].shape);
  if (problem.is_empty()) return zero_kernel(request);
  if (problem.type == memory::data_type::bf16 && !may_take_bf16(problem.geometry)) return nullptr;
  OneDnn& onednn = onednn_of(request);
  if (problem.type == memory::data_type::bf16) {
    if (auto kernel = pixel_filter_gradient(onednn, problem.geometry)) return kernel;
  }
  const WantedImplementation is_wanted = wanted_backward_filter(problem.geometry);
  const auto description =
      describe_backward_weights(onednn, onednn_words(problem), forward_description(problem, onednn), is_wanted);
  if (!is_wanted(description.impl_info_str())) return nullptr;
  const memory::desc weights = description.diff_weights_desc();
  ConvolutionCall call(onednn, description,
                       {{DNNL_ARG_DIFF_DST, problem.y}, {DNNL_ARG_SRC, problem.x}, {DNNL_ARG_DIFF_WEIGHTS, weights}});
  return std::make_unique<OneDnnKernel>(
      onednn, std::move(call),
      std::array<ConvolutionArgument, 2>{{{problem.our_y, problem.y}, {problem.our_x, problem.x}}},
      ConvolutionArgument{problem.our_weights, weights});
}

}  // namespace

namespace {

TensorType with_images(const TensorType& type, std::int64_t num_images) {
  std::vector<std::int64_t> dims = type.shape.dims();
  dims[0] = num_images;
  return {type.dtype, Shape(std::move(dims))};
}

/// The request for f32 and so many images.
KernelRequest of_images(const KernelRequest& request, SlicedUse use, std::int64_t num_images) {
  KernelRequest of_f32 = widened_request(request);
  of_f32.inputs[0] = with_images(of_f32.inputs[0], num_images);
  if (use == SlicedUse::sum) of_f32.inputs[1] = with_images(of_f32.inputs[1], num_images);
  if (use == SlicedUse::each) {
    of_f32.outputs[0] = with_images(of_f32.outputs[0], num_images);
    // The gradient of x has x for its shape alone.
    if (of_f32.inputs.size() > 2) of_f32.inputs[2] = with_images(of_f32.inputs[2], num_images);
  }
  return of_f32;
}

/// oneDNN's kernel; of bf16 by slices of the batch where it has none for it.
template <KernelFactory make, SlicedUse use>
std::unique_ptr<Kernel> of_either(const KernelRequest& request) {
  if (request.outputs[0].dtype != Dtype::bf16) return make(request);
  if (multiplies_bf16()) {
    if (auto kernel = make(request)) return kernel;
  }
  return sliced_kernel(request, use, request.inputs[0].shape[0],
                       [&](std::int64_t num_images) { return make(of_images(request, use, num_images)); });
}

}  // namespace

std::unique_ptr<Kernel> make_convolution(const KernelRequest& request) {
  return onednn_factory<forward>(request);
}
std::unique_ptr<Kernel> make_convolution_backward_input(const KernelRequest& request) {
  return onednn_factory<backward_x>(request);
}
std::unique_ptr<Kernel> make_convolution_backward_filter(const KernelRequest& request) {
  return onednn_factory<backward_filter>(request);
}

void add_convolution_cpu_kernels(KernelRegistry& registry) {
  for (const std::string name : {"conv2d", "conv3d"}) {
    registry.add(name, of_either<make_convolution, SlicedUse::each>, Bf16::native);
    registry.add(name, make_convolution_loop);
    registry.add(name + "_backward_input", of_either<make_convolution_backward_input, SlicedUse::each>, Bf16::native);
    registry.add(name + "_backward_input", make_convolution_backward_input_loop);
    registry.add(name + "_backward_filter", of_either<make_convolution_backward_filter, SlicedUse::sum>, Bf16::native);
    registry.add(name + "_backward_filter", make_convolution_backward_filter_loop);
  }
  for (const char* name : {"conv_transpose2d", "conv_transpose3d"}) {
    registry.add(name, of_either<make_convolution_backward_input, SlicedUse::each>, Bf16::native);
    registry.add(name, make_convolution_backward_input_loop);
  }
}

}  // namespace sectionflow

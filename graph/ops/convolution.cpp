#include "graph/ops/convolution.h"

#include <algorithm>

#include "base/checked_arithmetic.h"
#include "graph/check_dtype.h"
#include "graph/op_registry.h"
#include "graph/ops/described_window.h"

namespace sectionflow {

std::int64_t ConvolutionGeometry::num_taps() const {
  std::int64_t taps = 1;
  for (const WindowAxis& axis : axes) taps = checked_multiply(taps, axis.window);
  return taps;
}

Shape ConvolutionGeometry::x_shape() const {
  std::vector<std::int64_t> sizes;
  for (const WindowAxis& axis : axes) sizes.push_back(axis.size);
  return image_shape({batch, channels, std::move(sizes)}, format);
}

Shape ConvolutionGeometry::y_shape() const {
  return image_shape({batch, filters, outputs_of(axes)}, format);
}

namespace {

/// `weights`: "C, F", the end of the weights' shape.
void check_ranks(const Shape& x, const Shape& w, const ConvolutionOptions& options, const std::string& weights,
                 const std::string& label) {
  const std::size_t rank = options.steps.stride.size();
  const int wanted = static_cast<int>(rank) + 2;
  SF_CHECK(x.rank() == wanted && w.rank() == wanted, ShapeError, label, " got x ", x, " and w ", w, "; wanted ",
           image_text(rank, options.steps.format), " and [", rank == 2 ? "KH, KW, " : "KD, KH, KW, ", weights, "]");
}

void check_groups(std::int64_t channels, std::int64_t filters, std::int64_t groups, const std::string& label) {
  SF_CHECK(groups >= 1, ArgumentError, label, ": groups ", groups, "; wanted >= 1");
  SF_CHECK(channels % groups == 0 && filters % groups == 0, ArgumentError, label, ": ", channels, " channels and ",
           filters, " filters in ", groups, " groups; wanted multiples of the groups");
}

/// a b, for messages.
std::string product_text(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? text_of(a, " times ", b) : text_of(product);
}

std::vector<std::int64_t> window_of(const Shape& w) {
  return {w.dims().begin(), w.dims().end() - 2};
}

}  // namespace

ConvolutionGeometry convolution_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                         const std::string& label) {
  check_ranks(x, w, options, options.groups == 1 ? "C, F" : "C / groups, F", label);
  const ImageDims image = image_dims(x, options.steps.format);
  check_groups(image.channels, w[-1], options.groups, label);
  // Without a product, which might not fit 64 bits: the channels are a multiple of the groups.
  SF_CHECK(image.channels / options.groups == w[-2], ShapeError, label, ": input ", x, " has ", image.channels,
           " channels, filter ", w, options.groups == 1 ? "" : text_of(" in ", options.groups, " groups"), " wants ",
           product_text(w[-2], options.groups));
  return {.batch = image.batch,
          .channels = image.channels,
          .filters = w[-1],
          .groups = options.groups,
          .axes = window_axes(image.sizes, window_of(w), options.steps, label),
          .format = options.steps.format};
}

namespace {

/// The size of a transposed convolution's output along axis `i`.
std::int64_t transposed_size(std::int64_t size, std::int64_t window, const ConvolutionOptions& options, std::size_t i,
                             const std::string& label) {
  const WindowSteps& steps = options.steps;
  const std::int64_t stride = steps.stride[i], more = options.output_padding[i];
  SF_CHECK(size != kDynamic, ShapeError, label, ": the sizes of images must be known; only the batch may be -1");
  SF_CHECK(size >= 1, ShapeError, label, ": images without elements");
  SF_CHECK(more >= 0 && more < stride, ArgumentError, label, ": output padding ", more, " with stride ", stride,
           "; wanted at least 0 and less than the stride");
  if (steps.padding == PaddingKind::same) {
    SF_CHECK(more == 0, ArgumentError, label, ": output padding ", more,
             " with Padding::same, whose output is stride times the input; try explicit padding");
    return checked_multiply(size, stride);
  }
  const std::int64_t extent = checked_add(checked_multiply(window - 1, steps.dilation[i]), 1);
  const std::int64_t whole = checked_add(checked_multiply(size - 1, stride), extent);
  const std::int64_t result = checked_add(whole, more) - checked_add(steps.before[i], steps.after[i]);
  SF_CHECK(result >= 1, ShapeError, label, ": padding of ", steps.before[i], " and ", steps.after[i],
           " leaves nothing of an output of ", whole);
  return result;
}

}  // namespace

ConvolutionGeometry transposed_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                        const std::string& label) {
  check_ranks(x, w, options, options.groups == 1 ? "F, C" : "F / groups, C", label);
  ImageDims image = image_dims(x, options.steps.format);
  SF_CHECK(image.channels == w[-1], ShapeError, label, ": input ", x, " has ", image.channels, " channels, filter ", w,
           " wants ", w[-1]);
  const std::int64_t outputs = options.groups <= 1 ? w[-2] : checked_multiply(w[-2], options.groups);
  check_groups(image.channels, outputs, options.groups, label);
  // Before window_axes can be asked, which wants the sizes that are worked out here.
  check_window(window_of(w), options.steps, label);
  for (std::size_t i = 0; i < image.sizes.size(); ++i) {
    image.sizes[i] = transposed_size(image.sizes[i], w[static_cast<int>(i)], options, i, label);
  }
  return {.batch = image.batch,
          .channels = outputs,
          .filters = image.channels,
          .groups = options.groups,
          .axes = window_axes(image.sizes, window_of(w), options.steps, label),
          .format = options.steps.format};
}

namespace {

// Inputs of both: dy, the other factor, and the tensor whose gradient is taken, for its shape. X, W: where x and w are.
template <std::size_t X, std::size_t W>
std::vector<TensorType> infer_backward(const ShapeRequest& request, std::size_t rank) {
  const Dtype dtype = check_f32_or_bf16(request);
  check_steps_of(request.get<ConvolutionOptions>().steps, rank, request.label);
  const Shape& x = request.inputs[X].shape;
  const Shape& w = request.inputs[W].shape;
  const Shape y = convolution_geometry(x, w, request.get<ConvolutionOptions>(), request.label).y_shape();
  SF_CHECK(may_agree(request.inputs[0], {dtype, y}), ShapeError, request.label, " got dy ", request.inputs[0].shape,
           " for x ", x, " and w ", w, "; wanted ", y);
  return {request.inputs[2]};
}

}  // namespace

OptionsDescription described_convolution() {
  return described_by<ConvolutionOptions>([](auto& fields, auto& options) {
    describe_steps(fields, options.steps);
    fields("groups", options.groups);
    fields("output_padding", options.output_padding);
  });
}

double convolution_flops(const TensorType& y, const TensorType& w) {
  return 2 * static_cast<double>(y.shape.num_elements()) * static_cast<double>(w.shape.num_elements()) /
         static_cast<double>(std::max<std::int64_t>(1, w.shape[-1]));
}

void define_convolution_ops(OpRegistry& registry, const std::string& name) {
  const std::size_t rank = name == "conv2d" ? 2 : 3;
  const OptionsDescription options = described_convolution();
  registry.add({.name = name,
                .inputs = 2,
                .options = options,
                .infer =
                    [rank](const ShapeRequest& r) {
                      const Dtype dtype = check_f32_or_bf16(r);
                      const auto& given = r.get<ConvolutionOptions>();
                      check_steps_of(given.steps, rank, r.label);
                      const auto g = convolution_geometry(r.inputs[0].shape, r.inputs[1].shape, given, r.label);
                      return std::vector<TensorType>{{dtype, g.y_shape()}};
                    },
                .flops = [](auto inputs, auto outputs) { return convolution_flops(outputs[0], inputs[1]); }});
  const auto uses = [](std::size_t, HostBooleans) {
    return std::vector{InputUse::data, InputUse::data, InputUse::shape_only};
  };
  registry.add({.name = name + "_backward_input",
                .inputs = 3,
                .options = options,
                .infer = [rank](const ShapeRequest& r) { return infer_backward<2, 1>(r, rank); },
                .uses = uses,
                .flops = [](auto inputs, auto /*outputs*/) { return convolution_flops(inputs[0], inputs[1]); }});
  registry.add({.name = name + "_backward_filter",
                .inputs = 3,
                .options = options,
                .infer = [rank](const ShapeRequest& r) { return infer_backward<1, 2>(r, rank); },
                .uses = uses,
                .flops = [](auto inputs, auto outputs) { return convolution_flops(inputs[0], outputs[0]); }});
}

std::string convolution_name(const ConvolutionOptions& options) {
  return options.steps.stride.size() == 2 ? "conv2d" : "conv3d";
}

Value convolution(Value x, Value w, const ConvolutionOptions& options, Where where) {
  const std::string name = convolution_name(options);
  return x.graph().add_node(name, {x, w}, options, name, where).output();
}
Value convolution_backward_input(Value dy, Value w, Value x, const ConvolutionOptions& options) {
  const std::string name = convolution_name(options) + "_backward_input";
  return dy.graph().add_node(name, {dy, w, x}, options, name).output();
}
Value convolution_backward_filter(Value dy, Value x, Value w, const ConvolutionOptions& options) {
  const std::string name = convolution_name(options) + "_backward_filter";
  return dy.graph().add_node(name, {dy, x, w}, options, name).output();
}

}  // namespace sectionflow

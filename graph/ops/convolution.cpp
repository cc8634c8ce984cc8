#include "graph/ops/convolution.h"

#include <algorithm>
#include <utility>

#include "base/checked_arithmetic.h"
#include "graph/fake_quantization.h"
#include "graph/nodes/convolution.h"
#include "graph/nodes/window.h"
#include "graph/op_registry.h"
#include "graph/ops/bias_add.h"
#include "graph/option_fields.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {

std::int64_t ConvolutionGeometry::num_taps() const {
  return sectionflow::num_taps(axes, "convolution");
}

Shape ConvolutionGeometry::x_shape() const {
  std::vector<std::int64_t> sizes;
  for (const WindowAxis& axis : axes) sizes.push_back(axis.size);
  return image_shape({batch, channels, std::move(sizes)}, format);
}

Shape ConvolutionGeometry::w_shape() const {
  std::vector<std::int64_t> dims;
  for (const WindowAxis& axis : axes) dims.push_back(axis.window);
  dims.insert(dims.end(), {channels / groups, filters});
  return Shape(std::move(dims));
}

Shape ConvolutionGeometry::y_shape() const {
  return image_shape({batch, filters, outputs_of(axes)}, format);
}

namespace {

/// "conv2d", "conv_transpose3d"
std::string op_name_of(ConvolutionKind kind, std::size_t rank) {
  return text_of(kind == ConvolutionKind::forward ? "conv" : "conv_transpose", rank, "d");
}

/// What is asked of the weights: by themselves, or by the layer that is going to make them.
struct Filters {
  std::vector<std::int64_t> window{};
  std::int64_t features = 0;  ///< channels of the result
  const Shape* w = nullptr;   ///< where there are weights
};

/// The size of a transposed convolution's output along axis `i`.
std::int64_t transposed_size(std::int64_t size, std::int64_t window, const ConvolutionOptions& options, std::size_t i,
                             const std::string& label) {
  const WindowSteps& steps = options.steps;
  const std::int64_t stride = steps.stride[i], more = options.output_padding[i];
  SF_CHECK(size != kDynamic, ShapeError, label,
           ": the sizes of images must be known; only the batch may be left to the feed");
  SF_CHECK(size >= 1, ShapeError, label, ": images without elements");
  SF_CHECK(more >= 0 && more < stride, ArgumentError, label, ": output padding ", more, " with stride ", stride,
           "; wanted at least 0 and less than the stride");
  if (steps.padding == PaddingKind::same) {
    SF_CHECK(more == 0, ArgumentError, label, ": output padding ", more,
             " with Padding::same, whose output is stride times the input; try explicit padding");
    return checked_multiply(size, stride, label);
  }
  const std::int64_t extent = (window - 1) * steps.dilation[i] + 1;
  const std::int64_t whole = checked_add(checked_multiply(size - 1, stride, label), extent, label);
  const std::int64_t result = checked_add(whole, more, label) - (steps.before[i] + steps.after[i]);
  SF_CHECK(result >= 1, ShapeError, label, ": padding of ", steps.before[i], " and ", steps.after[i],
           " leaves nothing of an output of ", whole);
  return result;
}

/// a b, for messages.
std::string product_text(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? text_of(a, " times ", b) : text_of(product);
}

/// `x`: what is convolved, forward or transposed; the geometry is that of the forward convolution in both cases.
ConvolutionGeometry geometry_of(ConvolutionKind kind, const Shape& x, const Filters& filters,
                                const ConvolutionOptions& options, const std::string& label) {
  ImageDims image = image_dims(x, options.steps.format);
  const bool is_forward = kind == ConvolutionKind::forward;
  const std::int64_t groups = options.groups;
  SF_CHECK(groups >= 1, ArgumentError, label, ": groups ", groups, "; wanted >= 1");
  SF_CHECK(image.channels % groups == 0 && filters.features % groups == 0, ArgumentError, label, ": ", image.channels,
           " channels and ", filters.features, " filters in ", groups, " groups; wanted multiples of the groups");
  if (filters.w != nullptr) {
    const Shape& w = *filters.w;
    // By division, since a product might not fit 64 bits.
    const auto fits = [&](std::int64_t channels) {
      return is_forward ? channels % groups == 0 && channels / groups == w[-2] : channels == w[-1];
    };
    SF_CHECK(fits(image.channels), ShapeError, label, ": input ", x, " has ", dim_text(image.channels),
             " channels, filter ", w, is_forward && groups != 1 ? text_of(" in ", groups, " groups") : "", " wants ",
             is_forward ? product_text(w[-2], groups) : text_of(w[-1]),
             format_hint(options.steps.format, fits(image_dims(x, other_format(options.steps.format)).channels)));
  }
  if (!is_forward) {
    // Before window_axes can be asked, which wants the sizes that are worked out here.
    check_window(filters.window, options.steps, label);
    SF_CHECK(options.output_padding.size() == image.sizes.size(), ArgumentError, label, " got ",
             options.output_padding.size(), " numbers as output padding; wanted ", image.sizes.size());
    for (std::size_t i = 0; i < image.sizes.size(); ++i) {
      image.sizes[i] = transposed_size(image.sizes[i], filters.window[i], options, i, label);
    }
  }
  const auto axes = [&] {
    if (is_forward) return image_axes(x, filters.window, options.steps, label);
    return window_axes(image.sizes, filters.window, options.steps, label);
  };
  ConvolutionGeometry g{.batch = image.batch,
                        .channels = is_forward ? image.channels : filters.features,
                        .filters = is_forward ? filters.features : image.channels,
                        .groups = groups,
                        .axes = axes(),
                        .format = options.steps.format};
  (void)num_taps(g.axes, label);
  return g;
}

std::vector<std::int64_t> window_of(const Shape& w) {
  return {w.dims().begin(), w.dims().end() - 2};
}

}  // namespace

ConvolutionGeometry convolution_geometry(const Shape& x, const Shape& w, const ConvolutionOptions& options,
                                         const std::string& label, ConvolutionKind kind) {
  const bool is_forward = kind == ConvolutionKind::forward, is_grouped = options.groups != 1;
  const std::size_t rank = options.steps.stride.size();
  const int wanted = static_cast<int>(rank) + 2;
  SF_CHECK(x.rank() == wanted && w.rank() == wanted, ShapeError, label, " got x ", x, " and w ", w, "; wanted ",
           image_text(rank, options.steps.format), " and [", rank == 2 ? "KH, KW, " : "KD, KH, KW, ",
           is_forward ? "C" : "F", is_grouped ? " / groups, " : ", ", is_forward ? "F]" : "C]");
  const std::int64_t of_group = is_forward ? w[-1] : w[-2];
  const std::int64_t features =
      is_forward || options.groups <= 1 ? of_group : checked_multiply(of_group, options.groups, label);
  return geometry_of(kind, x, {window_of(w), features, &w}, options, label);
}

namespace {

/// Throws: ShapeError (starting with `label`) where the elements do not fit 64 bits, whatever batch the feed decides
/// on.
void check_elements(const Shape& shape, const std::string& label) {
  std::int64_t count = 1;
  for (std::int64_t dim : shape.dims()) count = checked_multiply(count, dim == kDynamic ? 1 : dim, label);
}

/// The shape rule of an op: which of its inputs are x and w. Inputs of gradients: dy, the other factor, and the tensor
/// whose gradient is taken, for its shape.
struct ConvolutionRule {
  ConvolutionKind kind;
  std::size_t rank, x = 0, w = 1;

  std::vector<TensorType> operator()(const ShapeRequest& request) const {
    const Dtype dtype = check_f32_or_bf16(request);
    const auto& options = request.get<ConvolutionOptions>();
    const Shape& x_shape = request.inputs[x].shape;
    const Shape& w_shape = request.inputs[w].shape;
    // A file may tell otherwise.
    SF_CHECK(options.steps.stride.size() == rank, ArgumentError, request.label, " got ", options.steps.stride.size(),
             " strides; wanted one an axis, ", rank);
    const auto g = convolution_geometry(x_shape, w_shape, options, request.label, kind);
    if (kind == ConvolutionKind::transposed) {
      check_elements(g.x_shape(), request.label);
      return {{dtype, g.x_shape()}};
    }
    const Shape y = g.y_shape();
    check_elements(y, request.label);
    if (request.inputs.size() == 2) return {{dtype, y}};
    SF_CHECK(may_agree(request.inputs[0], {dtype, y}), ShapeError, request.label, " got dy ", request.inputs[0].shape,
             " for x ", x_shape, " and w ", w_shape, "; wanted ", y);
    return {request.inputs[2]};
  }
};

}  // namespace

double convolution_flops(const TensorType& y, const TensorType& w) {
  return 2 * static_cast<double>(y.shape.num_elements()) * static_cast<double>(w.shape.num_elements()) /
         static_cast<double>(std::max<std::int64_t>(1, w.shape[-1]));
}

void define_convolution_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<ConvolutionOptions>([](auto& fields, auto& described) {
    describe_steps(fields, described.steps);
    fields("groups", described.groups);
    fields("output_padding", described.output_padding);
  });
  for (std::size_t rank : {2, 3}) {
    const std::string name = op_name_of(ConvolutionKind::forward, rank);
    registry.add({.name = name,
                  .inputs = 2,
                  .options = options,
                  .infer = ConvolutionRule{ConvolutionKind::forward, rank},
                  .flops = [](auto inputs, auto outputs) { return convolution_flops(outputs[0], inputs[1]); }});
    registry.add({.name = name + "_backward_input",
                  .inputs = 3,
                  .options = options,
                  .infer = ConvolutionRule{.kind = ConvolutionKind::forward, .rank = rank, .x = 2, .w = 1},
                  .uses = shape_of_last_alone,
                  .flops = [](auto inputs, auto /*outputs*/) { return convolution_flops(inputs[0], inputs[1]); }});
    registry.add({.name = name + "_backward_filter",
                  .inputs = 3,
                  .options = options,
                  .infer = ConvolutionRule{.kind = ConvolutionKind::forward, .rank = rank, .x = 1, .w = 2},
                  .uses = shape_of_last_alone,
                  .flops = [](auto inputs, auto outputs) { return convolution_flops(inputs[0], outputs[0]); }});
    registry.add({.name = op_name_of(ConvolutionKind::transposed, rank),
                  .inputs = 2,
                  .options = options,
                  .infer = ConvolutionRule{ConvolutionKind::transposed, rank},
                  .flops = [](auto inputs, auto /*outputs*/) { return convolution_flops(inputs[0], inputs[1]); }});
  }
}

Value convolution(Value x, Value w, const ConvolutionOptions& options, Where where) {
  const std::string name = op_name_of(ConvolutionKind::forward, options.steps.stride.size());
  return x.graph().add_node(name, {x, w}, options, name, where).output();
}
Value convolution_backward_input(Value dy, Value w, Value x, const ConvolutionOptions& options) {
  const std::string name = op_name_of(ConvolutionKind::forward, options.steps.stride.size()) + "_backward_input";
  return dy.graph().add_node(name, {dy, w, x}, options, name).output();
}
Value convolution_backward_filter(Value dy, Value x, Value w, const ConvolutionOptions& options) {
  const std::string name = op_name_of(ConvolutionKind::forward, options.steps.stride.size()) + "_backward_filter";
  return dy.graph().add_node(name, {dy, x, w}, options, name).output();
}

namespace {

/// What the node of a call keeps. Throws: ArgumentError (starting with `label`) for what transposed ones alone have.
template <std::size_t rank>
ConvolutionOptions node_options(ConvolutionKind kind, const ConvNdOptions<rank>& options, const std::string& label) {
  ConvolutionOptions kept{.steps = window_steps(options.stride, options.dilation, options.padding, options.format),
                          .groups = options.groups};
  const std::vector<std::int64_t> more = {options.output_padding.begin(), options.output_padding.end()};
  if (kind == ConvolutionKind::transposed) {
    kept.output_padding = more;
    return kept;
  }
  SF_CHECK(options.output_padding == PerAxis<rank>(0), ArgumentError, label, ": output_padding is ", numbers_text(more),
           "; wanted 0",
           hint("only ", op_name_of(ConvolutionKind::transposed, rank), " has it; .padding may say more"));
  return kept;
}

/// The same of a call that is given w. Throws: ArgumentError for what a layer alone has, and for what w contradicts.
template <std::size_t rank>
ConvolutionOptions options_beside(Value w, ConvolutionKind kind, const ConvNdOptions<rank>& options,
                                  const std::string& op) {
  const std::pair<const char*, bool> of_layers[] = {
      {"bias", options.bias},
      {"kernel_initializer", static_cast<bool>(options.kernel_initializer)},
      {"bias_initializer", static_cast<bool>(options.bias_initializer)},
      {"name", !options.name.empty()}};
  for (const auto& [field, is_set] : of_layers) {
    SF_CHECK(!is_set, ArgumentError, op, " got a kernel w and .", field, "; wanted one of them",
             hint(".", field, " is of a layer, which makes its own kernel of .features: leave w out, or .", field));
  }
  ConvolutionOptions kept = node_options(kind, options, op);
  // What else may be wrong with w, the shape rule says.
  if (!w.valid() || w.shape().rank() != static_cast<int>(rank) + 2) return kept;
  const Shape& shape = w.shape();
  const std::vector<std::int64_t> window = window_of(shape), kernel = {options.kernel.begin(), options.kernel.end()};
  const std::int64_t groups = kind == ConvolutionKind::forward ? 1 : options.groups;  // w says the features of one
  const std::int64_t of_group = kind == ConvolutionKind::forward ? shape[-1] : shape[-2];
  const bool fits = groups >= 1 && options.features % groups == 0 && options.features / groups == of_group;
  SF_CHECK(options.features == 0 || fits, ArgumentError, op, ": features is ", options.features, ", and w ", shape,
           " gives ", product_text(of_group, groups), hint("leave .features out: w says it"));
  SF_CHECK(options.kernel == ConvNdOptions<rank>().kernel || kernel == window, ArgumentError, op, ": kernel is ",
           numbers_text(kernel), ", and w ", shape, " has ", numbers_text(window),
           hint("leave .kernel out: w says it"));
  return kept;
}

/// The op of a call that is given w.
template <std::size_t rank>
Value convolution_with(Value x, Value w, ConvolutionKind kind, const ConvNdOptions<rank>& options, Where where) {
  return x.graph().build_at(where, {x, w}, [&] {
    const std::string op = op_name_of(kind, rank);
    return x.graph().add_node(op, {x, w}, options_beside(w, kind, options, op), op, where).output();
  });
}

/// How many numbers make one output, and how many outputs one input has a part in: what initialisers want to know. A
/// transposed convolution spreads each input over its kernel, of whose products one in prod(stride) meet.
struct Fans {
  double in = 1, out = 1;
};
Fans fans_of(ConvolutionKind kind, const ConvolutionGeometry& g) {
  double taps = 1, apart = 1;
  for (const WindowAxis& axis : g.axes) {
    taps *= static_cast<double>(axis.window);
    apart *= static_cast<double>(axis.stride);
  }
  const auto groups = static_cast<double>(g.groups);
  const double channels = taps * static_cast<double>(g.channels) / groups;
  const double filters = taps * static_cast<double>(g.filters) / groups;
  if (kind == ConvolutionKind::forward) return {channels, filters};
  return {std::max(1.0, filters / apart), channels};
}

/// Everything that is asked of x and the options is checked before anything is made.
template <std::size_t rank>
Value convolution_layer(Value x, ConvolutionKind kind, const ConvNdOptions<rank>& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const std::string op = op_name_of(kind, rank);
    const std::string& name = options.name.empty() ? op : options.name;
    const std::string label = text_of(op, " '", name, "'");
    check_layer_input(x, op, name);
    check_format(options.format, label);
    SF_CHECK(options.features > 0, ArgumentError, label, ": features is ", options.features, "; wanted > 0");
    SF_CHECK(x.shape().rank() == static_cast<int>(rank) + 2 && x.shape()[channel_axis(options.format)] != kDynamic,
             ShapeError, label, " got ", x.shape(), "; wanted ", image_text(rank, options.format), " with C known",
             format_hint(options.format, x.shape().rank() == static_cast<int>(rank) + 2));
    const ConvolutionOptions kept = node_options(kind, options, label);
    const Filters filters{{options.kernel.begin(), options.kernel.end()}, options.features};
    const ConvolutionGeometry g = geometry_of(kind, x.shape(), filters, kept, label);

    Graph& graph = x.graph();
    const auto scope = graph.scope(name);
    const Fans fans = fans_of(kind, g);
    const Value kernel = parameter("kernel", options.kernel_initializer ? options.kernel_initializer : he_normal(),
                                   {graph, g.w_shape(), fans.in, fans.out});
    const LayerOperands operands = layer_operands(x, kernel, kind == ConvolutionKind::forward);
    const Value y = graph.add_node(op, {operands.x, operands.kernel}, kept, op).output();
    if (!options.bias) return y;
    const Value bias = parameter("bias", options.bias_initializer ? options.bias_initializer : zeros(),
                                 {graph, {options.features}, fans.in, fans.out});
    return bias_add(y, in_dtype(bias, y.dtype()), {.format = options.format});
  });
}

constexpr auto kForward = ConvolutionKind::forward, kTransposed = ConvolutionKind::transposed;

}  // namespace

Value conv2d(Value x, const Conv2dOptions& options, Where where) {
  return convolution_layer(x, kForward, options, where);
}
Value conv3d(Value x, const Conv3dOptions& options, Where where) {
  return convolution_layer(x, kForward, options, where);
}
Value conv_transpose2d(Value x, const Conv2dOptions& options, Where where) {
  return convolution_layer(x, kTransposed, options, where);
}
Value conv_transpose3d(Value x, const Conv3dOptions& options, Where where) {
  return convolution_layer(x, kTransposed, options, where);
}

Value conv2d(Value x, Value w, const Conv2dOptions& options, Where where) {
  return convolution_with(x, w, kForward, options, where);
}
Value conv3d(Value x, Value w, const Conv3dOptions& options, Where where) {
  return convolution_with(x, w, kForward, options, where);
}
Value conv_transpose2d(Value x, Value w, const Conv2dOptions& options, Where where) {
  return convolution_with(x, w, kTransposed, options, where);
}
Value conv_transpose3d(Value x, Value w, const Conv3dOptions& options, Where where) {
  return convolution_with(x, w, kTransposed, options, where);
}

Value conv2d_backward_input(Value dy, Value w, Value x, const Conv2dOptions& options) {
  return convolution_backward_input(dy, w, x, options_beside(w, kForward, options, "conv2d_backward_input"));
}
Value conv2d_backward_filter(Value dy, Value x, Value w, const Conv2dOptions& options) {
  return convolution_backward_filter(dy, x, w, options_beside(w, kForward, options, "conv2d_backward_filter"));
}
Value conv3d_backward_input(Value dy, Value w, Value x, const Conv3dOptions& options) {
  return convolution_backward_input(dy, w, x, options_beside(w, kForward, options, "conv3d_backward_input"));
}
Value conv3d_backward_filter(Value dy, Value x, Value w, const Conv3dOptions& options) {
  return convolution_backward_filter(dy, x, w, options_beside(w, kForward, options, "conv3d_backward_filter"));
}

}  // namespace sectionflow

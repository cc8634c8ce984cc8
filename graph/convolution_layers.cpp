#include <algorithm>
#include <functional>

#include "graph/layers.h"
#include "graph/ops/bias_add.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

/// What the options of every convolution layer say.
struct Layer {
  std::string op;  // "conv2d"
  std::int64_t features = 0;
  std::vector<std::int64_t> kernel{};
  ConvolutionOptions convolution{};
  bool is_transposed = false;
  bool bias = false;
  const Initializer& kernel_initializer;
  const Initializer& bias_initializer;
  const std::string& name;

  std::string label() const { return text_of(op, " '", name, "'"); }
};

template <class LayerOptions, class Options>
Layer layer_of(const LayerOptions& options, const Options& convolution, const std::string& op, bool is_transposed) {
  return {.op = op,
          .features = options.features,
          .kernel = {options.kernel.begin(), options.kernel.end()},
          .convolution = convolution_options(convolution),
          .is_transposed = is_transposed,
          .bias = options.bias,
          .kernel_initializer = options.kernel_initializer,
          .bias_initializer = options.bias_initializer,
          .name = options.name};
}

/// How many numbers make one output, and how many outputs one input has a part in: what initialisers want to know. A
/// transposed convolution spreads each input over its kernel, of whose products one in prod(stride) meet.
struct Fans {
  double in = 1, out = 1;
};
Fans fans_of(const Layer& layer, std::int64_t channels) {
  double taps = 1, apart = 1;
  for (std::int64_t size : layer.kernel) taps *= static_cast<double>(size);
  for (std::int64_t stride : layer.convolution.steps.stride) apart *= static_cast<double>(stride);
  const auto groups = static_cast<double>(layer.convolution.groups);
  const double in = taps * static_cast<double>(channels) / groups;
  const double out = taps * static_cast<double>(layer.features) / groups;
  if (!layer.is_transposed) return {in, out};
  return {std::max(1.0, in / apart), out};
}

/// The shape of the kernel, after everything that is asked of the input and the options has been checked.
Shape checked_kernel_shape(Value x, const Layer& layer) {
  check_layer_input(x, layer.op, layer.name);
  const DataFormat format = layer.convolution.steps.format;
  const std::size_t rank = layer.kernel.size();
  SF_CHECK(layer.features > 0, ArgumentError, layer.label(), ": features is ", layer.features, "; wanted > 0");
  SF_CHECK(x.shape().rank() == static_cast<int>(rank) + 2 && image_dims(x.shape(), format).channels != kDynamic,
           ShapeError, layer.label(), " got ", x.shape(), "; wanted ", image_text(rank, format), " with C known");
  const std::int64_t channels = image_dims(x.shape(), format).channels;
  const std::int64_t groups = layer.convolution.groups;
  SF_CHECK(groups >= 1, ArgumentError, layer.label(), ": groups ", groups, "; wanted >= 1");
  SF_CHECK(channels % groups == 0 && layer.features % groups == 0, ArgumentError, layer.label(), ": ", channels,
           " channels and ", layer.features, " filters in ", groups, " groups; wanted multiples of the groups");
  std::vector<std::int64_t> dims = layer.kernel;
  dims.push_back(layer.is_transposed ? layer.features / groups : channels / groups);
  dims.push_back(layer.is_transposed ? channels : layer.features);
  Shape kernel(std::move(dims));
  if (layer.is_transposed) {
    (void)transposed_geometry(x.shape(), kernel, layer.convolution, layer.label());
  } else {
    (void)convolution_geometry(x.shape(), kernel, layer.convolution, layer.label());
  }
  return kernel;
}

Value build(Value x, const Layer& layer, Where where, const std::function<Value(Value x, Value kernel)>& convolve) {
  return x.graph().build_at(where, [&] {
    const Shape kernel_shape = checked_kernel_shape(x, layer);
    Graph& graph = x.graph();
    const auto scope = graph.scope(layer.name);
    const Fans fans = fans_of(layer, image_dims(x.shape(), layer.convolution.steps.format).channels);
    const Value kernel = parameter("kernel", layer.kernel_initializer, {graph, kernel_shape, fans.in, fans.out});
    const Value input = in_layer_dtype(x);
    const Value y = convolve(input, in_dtype(kernel, input.dtype()));
    if (!layer.bias) return y;
    const Value bias = parameter("bias", layer.bias_initializer, {graph, {layer.features}, fans.in, fans.out});
    return bias_add(y, in_dtype(bias, y.dtype()), {.format = layer.convolution.steps.format});
  });
}

template <class Options, class LayerOptions>
Options convolution_of(const LayerOptions& layer) {
  Options options;
  options.stride = layer.stride;
  options.padding = layer.padding;
  options.dilation = layer.dilation;
  options.groups = layer.groups;
  options.format = layer.format;
  if constexpr (requires { options.output_padding; }) options.output_padding = layer.output_padding;
  return options;
}

}  // namespace

Value conv2d(Value x, const Conv2dLayerOptions& options, Where where) {
  const auto convolution = convolution_of<Conv2dOptions>(options);
  return build(x, layer_of(options, convolution, "conv2d", false), where,
               [&](Value input, Value kernel) { return conv2d(input, kernel, convolution); });
}

Value conv3d(Value x, const Conv3dLayerOptions& options, Where where) {
  const auto convolution = convolution_of<Conv3dOptions>(options);
  return build(x, layer_of(options, convolution, "conv3d", false), where,
               [&](Value input, Value kernel) { return conv3d(input, kernel, convolution); });
}

Value conv_transpose2d(Value x, const ConvTranspose2dLayerOptions& options, Where where) {
  const auto convolution = convolution_of<ConvTranspose2dOptions>(options);
  return build(x, layer_of(options, convolution, "conv_transpose2d", true), where,
               [&](Value input, Value kernel) { return conv_transpose2d(input, kernel, convolution); });
}

Value conv_transpose3d(Value x, const ConvTranspose3dLayerOptions& options, Where where) {
  const auto convolution = convolution_of<ConvTranspose3dOptions>(options);
  return build(x, layer_of(options, convolution, "conv_transpose3d", true), where,
               [&](Value input, Value kernel) { return conv_transpose3d(input, kernel, convolution); });
}

}  // namespace sectionflow

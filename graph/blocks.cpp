#include "graph/blocks.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/nodes/layout.h"
#include "graph/nodes/window.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/convolution.h"
#include "graph/ops/dropout.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/option_fields.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

// ---- Gated units.

/// The halves of x.
struct Halves {
  Value value, gate;
};
Halves halves_of(const char* call, Value x, int axis) {
  const std::string label = text_of(call, " of '", x.name(), "'");
  check_f32_or_bf16(x.type(), label);
  const std::int64_t dim = x.shape()[normalized_axis(axis, x.shape().rank(), label)];
  SF_CHECK(dim == kDynamic || dim % 2 == 0, ShapeError, label, ": axis ", axis, " of ", x.shape(), " is ", dim,
           "; wanted an even number, two halves", hint("dense(x, {.features = 2 * width}) makes both"));
  const std::vector<Value> halves = split(x, 2, axis);
  return {halves[0], halves[1]};
}

template <class Gate>
Value gated_unit(const char* call, Value x, int axis, Where where, Gate&& gate) {
  return x.graph().build_at(where, {x}, [&] {
    const auto names = x.graph().scope(call);
    const Halves halves = halves_of(call, x, axis);
    return halves.value * gate(halves.gate);
  });
}

// ---- Sequences.

/// Throws: ArgumentError unless 1 <= number <= 2^31 - 1, as a convolution of two axes wants them.
void check_steps(const std::string& label, const char* option, std::int64_t number) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  SF_CHECK(number >= 1 && number <= kMost, ArgumentError, label, ": ", option, " is ", number, "; wanted 1 to ", kMost);
}

void check_conv1d(Value x, const Conv1dOptions& options, const std::string& label) {
  check_layer_input(x, "conv1d", options.name);
  OptionChecker(label).choice(
      "padding", options.padding,
      {{SequencePadding::same, "same"}, {SequencePadding::valid, "valid"}, {SequencePadding::causal, "causal"}});
  SF_CHECK(options.features > 0, ArgumentError, label, ": features is ", options.features, "; wanted > 0");
  check_steps(label, "kernel", options.kernel);
  check_steps(label, "stride", options.stride);
  check_steps(label, "dilation", options.dilation);
  const Shape& shape = x.shape();
  SF_CHECK(shape.rank() == 3 && shape[1] != kDynamic && shape[2] != kDynamic, ShapeError, label, " got ", shape,
           "; wanted [N, T, C] with T and C known");
  SF_CHECK(options.groups >= 1 && shape[2] % options.groups == 0 && options.features % options.groups == 0,
           ArgumentError, label, ": groups is ", options.groups, ", of ", shape[2], " channels and ", options.features,
           " features; wanted a divisor of both");
  const std::int64_t reach = (options.kernel - 1) * options.dilation + 1;
  SF_CHECK(options.padding != SequencePadding::valid || reach <= shape[1], ShapeError, label, ": kernel ",
           options.kernel, " with dilation ", options.dilation, " is of ", reach, " steps, x has ", shape[1],
           "; wanted no fewer", hint("try SequencePadding::same or SequencePadding::causal"));
}

Padding padding_of(const Conv1dOptions& options) {
  switch (options.padding) {
    case SequencePadding::same:
      return Padding::same;
    case SequencePadding::valid:
      return Padding::valid;
    case SequencePadding::causal:
      break;
  }
  return {{0, (options.kernel - 1) * options.dilation}, {0, 0}};
}

/// Channels between the two layers.
std::int64_t squeezed_channels(const SqueezeExciteOptions& options, std::int64_t channels, const std::string& label) {
  SF_CHECK(options.squeezed >= 0, ArgumentError, label, ": squeezed is ", options.squeezed,
           "; wanted 1 or more, or 0 for a 16th of the channels");
  return options.squeezed > 0 ? options.squeezed : std::max<std::int64_t>(1, channels / 16);
}

}  // namespace

void check_activation(Activation activation, const std::string& label) {
  OptionChecker(label).choice("activation", activation,
                              {{Activation::relu, "relu"},
                               {Activation::gelu, "gelu"},
                               {Activation::gelu_tanh, "gelu_tanh"},
                               {Activation::silu, "silu"}});
}

Value activate(Value x, Activation activation, Where where) {
  return x.graph().build_at(where, [&] {
    check_activation(activation, "activate");
    switch (activation) {
      case Activation::relu:
        return relu(x);
      case Activation::gelu:
        return gelu(x);
      case Activation::gelu_tanh:
        return gelu(x, {.approximation = Gelu::tanh});
      case Activation::silu:
        break;
    }
    return silu(x);
  });
}

Value glu(Value x, int axis, Where where) {
  return gated_unit("glu", x, axis, where, [](Value gate) { return sigmoid(gate); });
}
Value reglu(Value x, int axis, Where where) {
  return gated_unit("reglu", x, axis, where, [](Value gate) { return relu(gate); });
}
Value geglu(Value x, int axis, GeluOptions options, Where where) {
  return gated_unit("geglu", x, axis, where, [&](Value gate) { return gelu(gate, options); });
}
Value swiglu(Value x, int axis, Where where) {
  return gated_unit("swiglu", x, axis, where, [](Value gate) { return silu(gate); });
}

// Ones, a number an example, of which a dropout makes 0 or 1 / (1 - rate). Their number is read off a slice of x.
Value drop_path(Value x, Value is_training, DropPathOptions options, Where where) {
  return x.graph().build_at(where, {x, is_training}, [&] {
    Graph& graph = x.graph();
    const auto names = graph.scope("drop_path");
    const std::string label = text_of("drop_path of '", x.name(), "'");
    check_f32_or_bf16(x.type(), label);
    SF_CHECK(x.shape().rank() >= 1, ShapeError, label, " got a scalar; wanted [N, ...]");
    SF_CHECK(options.rate >= 0 && options.rate < 1, ArgumentError, label, ": rate is ", options.rate,
             "; wanted 0 to 1, without 1");
    SF_CHECK(is_training.type() == (TensorType{Dtype::boolean, {}}), ArgumentError, label, ": is_training is ",
             is_training.type().text(), "; wanted bool[], a placeholder or constant");
    check_host_boolean(is_training, label);
    if (options.rate == 0) return x;
    std::vector<std::int64_t> begin(x.shape().dims().size(), 0), size(begin.size(), 1);
    size[0] = -1;
    const Value one_each = slice(x, {.begin = std::move(begin), .size = std::move(size)});
    const Value ones = broadcast_like(fill(graph, {}, 1, x.dtype(), "one"), one_each);
    return x * dropout(ones, is_training, {.rate = options.rate});
  });
}
Value drop_path(Value x, DropPathOptions options, Where where) {
  return x.graph().build_at(where, [&] { return drop_path(x, x.graph().training(), options, {}); });
}

Value squeeze_excite(Value x, const SqueezeExciteOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const std::string label = text_of("squeeze_excite '", options.name, "'");
    check_layer_input(x, "squeeze_excite", options.name);
    check_format(options.format, label);
    check_activation(options.activation, label);
    const int rank = x.shape().rank(), axis = channel_axis(options.format);
    SF_CHECK((rank == 4 || rank == 5) && x.shape()[axis] > 0, ShapeError, label, " got ", x.shape(), "; wanted ",
             channels_text(options.format), " of rank 4 or 5 with C known",
             format_hint(options.format, (rank == 4 || rank == 5) && x.shape()[axis == 1 ? -1 : 1] > 0));
    const std::int64_t channels = x.shape()[axis], squeezed = squeezed_channels(options, channels, label);
    const auto names = x.graph().scope(options.name);
    const Value input = in_layer_dtype(x);
    const Value means =
        rank == 4 ? global_average_pool2d(input, options.format) : global_average_pool3d(input, options.format);
    const Value hidden = activate(dense(means, {.features = squeezed, .name = "squeeze"}), options.activation);
    const Value scale = sigmoid(dense(hidden, {.features = channels, .name = "excite"}));
    std::vector<std::int64_t> shape(static_cast<std::size_t>(rank), 1);
    shape[0] = kDynamic;
    (axis == 1 ? shape[1] : shape.back()) = channels;
    return input * reshape(scale, Shape(std::move(shape)));
  });
}

Value conv1d(Value x, const Conv1dOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const std::string label = text_of("conv1d '", options.name, "'");
    check_conv1d(x, options, label);
    Graph& graph = x.graph();
    const auto names = graph.scope(options.name);
    const std::int64_t length = x.shape()[1], channels = x.shape()[2], read = channels / options.groups;
    const auto fan_in = static_cast<double>(options.kernel) * static_cast<double>(read);
    const auto fan_out = static_cast<double>(options.kernel) * static_cast<double>(options.features / options.groups);
    const Value kernel = parameter("kernel", options.kernel_initializer,
                                   {graph, {1, options.kernel, read, options.features}, fan_in, fan_out});
    const Value image = reshape(in_layer_dtype(x), {x.shape()[0], 1, length, channels});
    Value y = conv2d(image, in_dtype(kernel, image.dtype()),
                     {.stride = {1, options.stride},
                      .padding = padding_of(options),
                      .dilation = {1, options.dilation},
                      .groups = options.groups});
    if (options.bias) {
      const Value bias = parameter("bias", options.bias_initializer, {graph, {options.features}, fan_in, fan_out});
      y = bias_add(y, in_dtype(bias, y.dtype()));
    }
    return reshape(y, {y.shape()[0], y.shape()[2], options.features});
  });
}

}  // namespace sectionflow

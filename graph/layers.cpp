#include "graph/layers.h"

#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/layer_norm.h"
#include "graph/ops/matmul.h"
#include "graph/ops/update.h"

namespace sectionflow {
namespace {

Value parameter(std::string_view name, const Initializer& initializer, const InitializerRequest& request,
                VariableOptions options = {}) {
  Value initial;
  {
    const auto scope = request.graph.scope(name);
    initial = initializer(request);
  }
  SF_CHECK(initial.shape() == request.shape, ShapeError, "parameter '", name, "': the initialiser gave ",
           initial.shape(), "; wanted ", request.shape);
  return variable(name, initial, options);
}

// Layers check their input before they make anything, so that a refused call leaves no parameters behind.
void check_f32(Value x, std::string_view layer, const std::string& name) {
  SF_CHECK(x.dtype() == Dtype::f32, ArgumentError, layer, " '", name, "' got ", x.type().text(),
           "; wanted f32; try cast");
}

}  // namespace

Value dense(Value x, const DenseOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_f32(x, "dense", options.name);
    SF_CHECK(options.units > 0, ArgumentError, "dense '", options.name, "': units is ", options.units, "; wanted > 0");
    SF_CHECK(x.shape().rank() >= 2 && x.shape()[-1] != kDynamic, ShapeError, "dense '", options.name, "' got ",
             x.shape(), "; wanted [..., C] of rank 2 or more with C known; try reshape(x, {-1, features})");
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const std::int64_t channels = x.shape()[-1];
    const auto fan_in = static_cast<double>(channels);
    const auto fan_out = static_cast<double>(options.units);
    const Value kernel =
        parameter("kernel", options.kernel_initializer, {graph, {channels, options.units}, fan_in, fan_out});
    const Value y = matmul(x, kernel);
    if (!options.bias) return y;
    return bias_add(y, parameter("bias", options.bias_initializer, {graph, {options.units}, fan_in, fan_out}));
  });
}

Value conv2d(Value x, const Conv2dLayerOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_f32(x, "conv2d", options.name);
    SF_CHECK(options.filters > 0, ArgumentError, "conv2d '", options.name, "': filters is ", options.filters,
             "; wanted > 0");
    SF_CHECK(x.shape().rank() == 4 && x.shape()[3] != kDynamic, ShapeError, "conv2d '", options.name, "' got ",
             x.shape(), "; wanted [N, H, W, C] with C known");
    Graph& graph = x.graph();
    const std::int64_t channels = x.shape()[3];
    const Shape kernel_shape{options.kernel[0], options.kernel[1], channels, options.filters};
    const Conv2dOptions convolution{.stride = options.stride, .padding = options.padding};
    (void)conv2d_geometry(x.shape(), kernel_shape, convolution, text_of("conv2d '", options.name, "'"));
    const auto scope = graph.scope(options.name);
    const auto taps = static_cast<double>(options.kernel[0] * options.kernel[1]);
    const double fan_in = taps * static_cast<double>(channels);
    const double fan_out = taps * static_cast<double>(options.filters);
    const Value kernel = parameter("kernel", options.kernel_initializer, {graph, kernel_shape, fan_in, fan_out});
    const Value y = conv2d(x, kernel, convolution);
    if (!options.bias) return y;
    return bias_add(y, parameter("bias", options.bias_initializer, {graph, {options.filters}, fan_in, fan_out}));
  });
}

Value batch_norm(Value x, Value is_training, const BatchNormLayerOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_f32(x, "batch_norm", options.name);
    check_host_boolean(is_training, text_of("batch_norm '", options.name, "'"));
    SF_CHECK(is_training.type() == (TensorType{Dtype::boolean, {}}), ArgumentError, "batch_norm '", options.name,
             "': is_training is ", is_training.type().text(), "; wanted bool[]");
    SF_CHECK(options.decay >= 0 && options.decay <= 1, ArgumentError, "batch_norm '", options.name, "': decay ",
             options.decay, "; wanted 0 to 1");
    const int axis = channel_axis(options.format);
    SF_CHECK(x.shape().rank() >= 2 && x.shape()[axis] != kDynamic, ShapeError, "batch_norm '", options.name, "' got ",
             x.shape(), "; wanted ", channels_text(options.format), " with C known");
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const InitializerRequest request{graph, {x.shape()[axis]}};
    const Value scale = parameter("scale", ones(), request);
    const Value shift = parameter("shift", zeros(), request);
    const Value moving_mean = parameter("moving_mean", zeros(), request, {.trainable = false});
    const Value moving_variance = parameter("moving_variance", ones(), request, {.trainable = false});
    const BatchNormResult result =
        batch_norm(x, scale, shift, moving_mean, moving_variance, is_training,
                   {.epsilon = options.epsilon, .relu = options.relu, .format = options.format});
    for (const auto& [average, batch] : {std::pair{moving_mean, result.mean}, {moving_variance, result.variance}}) {
      graph.add_to_collection(kUpdateOperations, update_moving_average(average, batch, is_training, options.decay));
    }
    return result.y;
  });
}

Value layer_norm(Value x, const LayerNormLayerOptions& options, Where where) {
  return x.graph().build_at(where, [&] {
    check_f32(x, "layer_norm", options.name);
    SF_CHECK(options.epsilon >= 0, ArgumentError, "layer_norm '", options.name, "': epsilon ", options.epsilon,
             "; wanted >= 0");
    SF_CHECK(x.shape().rank() >= 1 && x.shape()[-1] > 0, ShapeError, "layer_norm '", options.name, "' got ", x.shape(),
             "; wanted [..., C] with C known and > 0");
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const InitializerRequest request{graph, {x.shape()[-1]}};
    const Value scale = parameter("scale", ones(), request);
    const Value shift = parameter("shift", zeros(), request);
    return layer_norm(x, scale, shift, {.epsilon = options.epsilon});
  });
}

}  // namespace sectionflow

#include "graph/layers.h"

#include "graph/ops/basic.h"
#include "graph/ops/batch_norm.h"
#include "graph/ops/bias_add.h"
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

}  // namespace

Value dense(Value x, const DenseOptions& options) {
  SF_CHECK(options.units > 0, ArgumentError, "dense '", options.name, "': units is ", options.units, "; wanted > 0");
  SF_CHECK(x.shape().rank() == 2 && x.shape()[1] != kDynamic, ShapeError, "dense '", options.name, "' got ", x.shape(),
           "; wanted [N, C] with C known; try reshape(x, {-1, features})");
  Graph& graph = x.graph();
  const auto scope = graph.scope(options.name);
  const std::int64_t channels = x.shape()[1];
  const auto fan_in = static_cast<double>(channels);
  const auto fan_out = static_cast<double>(options.units);
  const Value kernel =
      parameter("kernel", options.kernel_initializer, {graph, {channels, options.units}, fan_in, fan_out});
  const Value y = matmul(x, kernel);
  if (!options.bias) return y;
  return bias_add(y, parameter("bias", options.bias_initializer, {graph, {options.units}, fan_in, fan_out}));
}

Value conv2d(Value x, const Conv2dLayerOptions& options) {
  SF_CHECK(options.filters > 0, ArgumentError, "conv2d '", options.name, "': filters is ", options.filters,
           "; wanted > 0");
  SF_CHECK(x.shape().rank() == 4 && x.shape()[3] != kDynamic, ShapeError, "conv2d '", options.name, "' got ", x.shape(),
           "; wanted [N, H, W, C] with C known");
  Graph& graph = x.graph();
  const auto scope = graph.scope(options.name);
  const std::int64_t channels = x.shape()[3];
  const auto taps = static_cast<double>(options.kernel[0] * options.kernel[1]);
  const double fan_in = taps * static_cast<double>(channels);
  const double fan_out = taps * static_cast<double>(options.filters);
  const Value kernel =
      parameter("kernel", options.kernel_initializer,
                {graph, {options.kernel[0], options.kernel[1], channels, options.filters}, fan_in, fan_out});
  const Value y = conv2d(x, kernel, {.stride = options.stride, .padding = options.padding});
  if (!options.bias) return y;
  return bias_add(y, parameter("bias", options.bias_initializer, {graph, {options.filters}, fan_in, fan_out}));
}

Value batch_norm(Value x, Value is_training, const BatchNormLayerOptions& options) {
  SF_CHECK(x.shape().rank() >= 2 && x.shape()[-1] != kDynamic, ShapeError, "batch_norm '", options.name, "' got ",
           x.shape(), "; wanted [..., C] with C known");
  Graph& graph = x.graph();
  const auto scope = graph.scope(options.name);
  const InitializerRequest request{graph, {x.shape()[-1]}};
  const Value scale = parameter("scale", ones(), request);
  const Value shift = parameter("shift", zeros(), request);
  const Value moving_mean = parameter("moving_mean", zeros(), request, {.trainable = false});
  const Value moving_variance = parameter("moving_variance", ones(), request, {.trainable = false});
  const BatchNormResult result =
      batch_norm(x, scale, shift, moving_mean, moving_variance, is_training, {.epsilon = options.epsilon});
  for (const auto& [average, batch] : {std::pair{moving_mean, result.mean}, {moving_variance, result.variance}}) {
    graph.add_to_collection(kUpdateOperations, update_moving_average(average, batch, is_training, options.decay));
  }
  return result.y;
}

}  // namespace sectionflow

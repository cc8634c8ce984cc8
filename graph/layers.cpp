#include "graph/layers.h"

#include "graph/fake_quantization.h"
#include "graph/nodes/window.h"
#include "graph/ops/basic.h"
#include "graph/ops/bias_add.h"
#include "graph/ops/indexing.h"
#include "graph/ops/matmul.h"
#include "graph/ops/update.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"
#include "graph/shared_entry.h"

namespace sectionflow {
namespace {

template <class Options>
void check_last_axis_norm(Value x, const char* layer, const Options& options) {
  check_layer_input(x, layer, options.name);
  SF_CHECK(options.epsilon >= 0, ArgumentError, layer, " '", options.name, "': epsilon ", options.epsilon,
           "; wanted >= 0");
  SF_CHECK(x.shape().rank() >= 1 && x.shape()[-1] > 0, ShapeError, layer, " '", options.name, "' got ", x.shape(),
           "; wanted [..., C] with C known and > 0");
}

}  // namespace

Value dense(Value x, const DenseOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    check_layer_input(x, "dense", options.name);
    SF_CHECK(options.features > 0, ArgumentError, "dense '", options.name, "': features is ", options.features,
             "; wanted > 0");
    SF_CHECK(x.shape().rank() >= 2 && x.shape()[-1] != kDynamic, ShapeError, "dense '", options.name, "' got ",
             x.shape(), "; wanted [..., C] of rank 2 or more with C known; try reshape(x, {-1, features})");
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const std::int64_t channels = x.shape()[-1];
    const auto fan_in = static_cast<double>(channels);
    const auto fan_out = static_cast<double>(options.features);
    const Value kernel =
        parameter("kernel", options.kernel_initializer, {graph, {channels, options.features}, fan_in, fan_out});
    const LayerOperands operands = layer_operands(x, kernel);
    const Value y = matmul(operands.x, operands.kernel);
    if (!options.bias) return y;
    const Value bias = parameter("bias", options.bias_initializer, {graph, {options.features}, fan_in, fan_out});
    return bias_add(y, in_dtype(bias, y.dtype()));
  });
}

Value batch_norm(Value x, const BatchNormOptions& options, Where where) {
  return x.graph().build_at(where, [&] { return batch_norm(x, x.graph().training(), options, {}); });
}

Value batch_norm(Value x, Value is_training, const BatchNormOptions& options, Where where) {
  return x.graph().build_at(where, {x, is_training}, [&] {
    check_layer_input(x, "batch_norm", options.name);
    check_format(options.format, text_of("batch_norm '", options.name, "'"));
    check_host_boolean(is_training, text_of("batch_norm '", options.name, "'"));
    SF_CHECK(is_training.type() == (TensorType{Dtype::boolean, {}}), ArgumentError, "batch_norm '", options.name,
             "': is_training is ", is_training.type().text(), "; wanted bool[]");
    SF_CHECK(options.decay >= 0 && options.decay <= 1, ArgumentError, "batch_norm '", options.name, "': decay ",
             options.decay, "; wanted 0 to 1");
    const int axis = channel_axis(options.format);
    const DataFormat other = other_format(options.format);
    SF_CHECK(x.shape().rank() >= 2 && x.shape()[axis] != kDynamic, ShapeError, "batch_norm '", options.name, "' got ",
             x.shape(), "; wanted ", channels_text(options.format), " with C known",
             format_hint(options.format, x.shape().rank() >= 2 && x.shape()[channel_axis(other)] != kDynamic));
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const InitializerRequest request{graph, {x.shape()[axis]}};
    const Value scale = parameter("scale", ones(), request);
    const Value shift = parameter("shift", zeros(), request);
    const Value moving_mean = parameter("moving_mean", zeros(), request, {.trainable = false});
    const Value moving_variance = parameter("moving_variance", ones(), request, {.trainable = false});
    const BatchNormResult result =
        batch_norm(in_layer_dtype(x), scale, shift, moving_mean, moving_variance, is_training,
                   {.epsilon = options.epsilon, .relu = options.relu, .format = options.format});
    if (replaces_variables(graph)) return result.y;
    for (const auto& [average, batch] : {std::pair{moving_mean, result.mean}, {moving_variance, result.variance}}) {
      graph.add_to_collection(kUpdateOperations, update_moving_average(average, batch, is_training, options.decay));
    }
    return result.y;
  });
}

Value layer_norm(Value x, const LayerNormOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    check_last_axis_norm(x, "layer_norm", options);
    Graph& graph = x.graph();
    const auto scope = graph.scope(options.name);
    const InitializerRequest request{graph, {x.shape()[-1]}};
    const Value scale = parameter("scale", ones(), request);
    const Value shift = parameter("shift", zeros(), request);
    return layer_norm(in_layer_dtype(x), scale, shift, {.epsilon = options.epsilon});
  });
}

Value rms_norm(Value x, const RmsNormOptions& options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    check_last_axis_norm(x, "rms_norm", options);
    const auto scope = x.graph().scope(options.name);
    const Value scale = parameter("scale", ones(), {x.graph(), {x.shape()[-1]}});
    return rms_norm(in_layer_dtype(x), scale, {.epsilon = options.epsilon});
  });
}

Value embedding(Value indices, const EmbeddingOptions& options, Where where) {
  return indices.graph().build_at(where, {indices}, [&] {
    SF_CHECK(indices.dtype() == Dtype::i32 || indices.dtype() == Dtype::i64, ArgumentError, "embedding '", options.name,
             "' got ", indices.type().text(), "; wanted i32 or i64; try cast");
    SF_CHECK(options.vocabulary > 0 && options.width > 0, ArgumentError, "embedding '", options.name,
             "': vocabulary is ", options.vocabulary, " and width ", options.width, "; wanted > 0");
    Graph& graph = indices.graph();
    const auto scope = graph.scope(options.name);
    const auto width = static_cast<double>(options.width);
    const Value table = parameter("table", options.initializer, {graph, {options.vocabulary, options.width}, 1, width});
    // Cast behind the gather, so that the table's gradient is summed in its own dtype.
    return in_layer_dtype(gather(table, indices));
  });
}

MixedPrecision::MixedPrecision(Graph& graph, Dtype dtype, Where where)
    : scope_(graph.build_at(where, [&] {
        SF_CHECK(is_f32_or_bf16(dtype), ArgumentError, "MixedPrecision in ", dtype_name(dtype),
                 "; wanted bf16, or f32 for a part in full precision");
        return graph.enter_layer_dtype(dtype);
      })) {}

}  // namespace sectionflow

#include "tests/support/layer_kinds.h"

#include <algorithm>

#include "graph/layers.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/attention.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/resize.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "graph/ops/update.h"

namespace sectionflow::testing {
namespace {

std::vector<int> axes_but(const Value& x, std::initializer_list<int> kept) {
  std::vector<int> axes;
  for (int axis = 0; axis < x.shape().rank(); ++axis) {
    if (std::find(kept.begin(), kept.end(), axis) == kept.end()) axes.push_back(axis);
  }
  return axes;
}

/// The mean over everything but the channels: [C].
Value channel_means(Value x) {
  return reduce_mean(x, {.axes = axes_but(x, {x.shape().rank() - 1})});
}

Shape shape_of_one(Value x) {
  return Shape(std::vector<std::int64_t>(x.shape().dims().begin() + 1, x.shape().dims().end()));
}

/// x with its last dimension changed by a kernel: [..., C] to [..., units].
Value project(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const std::int64_t channels = x.shape()[-1];
  const Value kernel = model.parameter(layer, "kernel", {channels, layer.size}, 0, 0.4F);
  std::vector<std::int64_t> dims = x.shape().dims();
  Value y = matmul(x.shape().rank() == 2 ? x : reshape(x, {-1, channels}), kernel);
  if (layer.bias) y = y + model.parameter(layer, "bias", {layer.size}, 0, 0.1F);
  if (dims.size() == 2) return y;
  dims.front() = -1;
  dims.back() = layer.size;
  return reshape(y, Shape(dims));
}

Value convolve(ModelBuilder& model, const LayerSpec& layer, Value x) {
  if (x.shape().rank() != 4) return project(model, layer, x);
  const std::int64_t stride = x.shape()[1] >= 4 ? layer.stride : 1;
  const Value kernel = model.parameter(layer, "filter", {layer.side, layer.side, x.shape()[3], layer.size}, 0, 0.3F);
  const Value y = conv2d(x, kernel, {.stride = {stride, stride}});
  return layer.bias ? y + model.parameter(layer, "bias", {layer.size}, 0, 0.1F) : y;
}

Value normalise(ModelBuilder& model, const LayerSpec& layer, Value x) {
  switch (layer.option % 3) {
    case 0:
      return batch_norm(x, model.is_training, {.decay = 0.9F});
    case 1:
      return batch_norm(x, model.is_training, {.decay = 0.9F, .relu = true});
    default:
      return layer_norm(x);
  }
}

Value activate(ModelBuilder&, const LayerSpec& layer, Value x) {
  switch (layer.option % 8) {
    case 0:
      return relu(x);
    case 1:
      return relu(x * 2.0F + 0.1F) - 0.2F;
    case 2:
      return square(x) * 0.5F;
    case 3:
      return tanh(x);
    case 4:
      return gelu(x);
    case 5:
      return silu(x) * sigmoid(x);
    case 6:
      return softmax(x);
    default:
      return clip(x, -0.5F, 0.8F);
  }
}

Value add_noise(ModelBuilder& model, const LayerSpec& layer, Value x) {
  if (layer.option % 2 == 0) return x + random_normal(model.graph, shape_of_one(x), {.stddev = 0.1F});
  return x * random_uniform(model.graph, shape_of_one(x), {.low = 0.5F, .high = 1.5F});
}

Value scale(ModelBuilder& model, const LayerSpec& layer, Value x) {
  return x * model.parameter(layer, "scale", {x.shape()[-1]}, 1, 0.2F);
}

/// Gates: by the greatest of each channel, or by the first layer's mean.
Value gate(ModelBuilder&, const LayerSpec&, Value x) {
  if (x.shape().rank() == 2) return x * reduce_max(x, {.axes = {1}, .keep_dims = true});
  return x * reduce_max(x, {.axes = axes_but(x, {0, x.shape().rank() - 1}), .keep_dims = true});
}

/// A variable that is not trained: read here, changed once a step by an operation of its own.
Value count(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const Value total = model.state(layer, "total", {x.shape()[-1]}, 0.1F);
  const Value means = channel_means(x);
  const bool averages = layer.option % 2 == 1;
  const Operation update =
      averages ? update_moving_average(total, means, model.is_training, 0.8F) : assign_add(total, means * 0.05F);
  model.graph.add_to_collection(kUpdateOperations, update);
  return x + total * 0.1F;
}

/// A loss of its own; x goes on unchanged but for a factor, so that the layer is not empty for the next.
Value lose(ModelBuilder& model, const LayerSpec&, Value x) {
  model.losses.push_back(mean(x * x));
  return x * 1.25F;
}

/// Waits for an operation of an earlier layer that it does not read.
Value wait(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const Value y = x * 0.75F;
  const Value source = model.source_of(layer);
  if (source.node().op().has_kernel) model.graph.add_control_edge(Operation(source), Operation(y));
  return y;
}

Value drop(ModelBuilder& model, const LayerSpec&, Value x) {
  return dropout(x, model.is_training, {.rate = 0.3F});
}

Value pool(ModelBuilder&, const LayerSpec& layer, Value x) {
  if (x.shape().rank() != 4 || x.shape()[1] < 2 || x.shape()[2] < 2) return x * 0.9F;
  return layer.option % 2 == 0 ? max_pool2d(x) : average_pool2d(x);
}

/// Channels of the source behind those of x; where they do not fit, or would become many, their sum.
Value join(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const Value source = model.source_of(layer);
  const int rank = x.shape().rank();
  bool fits = source.shape().rank() == rank && x.shape()[-1] + source.shape()[-1] <= 8;
  for (int axis = 1; fits && axis < rank - 1; ++axis) fits = x.shape()[axis] == source.shape()[axis];
  return fits ? concat({x, source}, -1) : x + fitted(source, x);
}

/// The channels in two parts, put together the other way round.
Value swap_parts(ModelBuilder&, const LayerSpec&, Value x) {
  const std::int64_t channels = x.shape()[-1];
  if (channels < 2) return x * 0.9F;
  const auto parts = split(x, {channels / 2, channels - channels / 2}, -1);
  return concat({parts[1], relu(parts[0])}, -1);
}

Value turn(ModelBuilder&, const LayerSpec&, Value x) {
  switch (x.shape().rank()) {
    case 4:
      return transpose(x, {0, 2, 1, 3});
    case 3:
      return transpose(x, {0, 2, 1});
    default:
      return x * 0.9F;
  }
}

/// Rows of a table by the labels, added to every place of an example. The head may use the table too.
Value look_up(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const std::int64_t channels = x.shape()[-1];
  const Value table = model.parameter(layer, "table", {ModelBuilder::kClasses, channels}, 0, 0.3F);
  model.table = table;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.shape().rank()), 1);
  dims.front() = -1;
  dims.back() = channels;
  return x + reshape(gather(table, model.classes), Shape(dims));
}

/// Another resolution, at most 8 pixels high and wide.
Value resized(ModelBuilder&, const LayerSpec& layer, Value x) {
  if (x.shape().rank() != 4) return x * 0.9F;
  const auto other = [](std::int64_t side) { return side <= 4 ? 2 * side - 1 : side - 2; };
  return resize2d(x, {.height = other(x.shape()[1]),
                      .width = other(x.shape()[2]),
                      .method = layer.option % 2 == 0 ? ResizeMethod::nearest : ResizeMethod::bilinear});
}

/// A transposed convolution, which doubles the resolution where it is small.
Value convolve_up(ModelBuilder& model, const LayerSpec& layer, Value x) {
  if (x.shape().rank() != 4) return project(model, layer, x);
  const std::int64_t stride = x.shape()[1] <= 4 && x.shape()[2] <= 4 ? 2 : 1;
  const Value kernel = model.parameter(layer, "up_filter", {layer.side, layer.side, layer.size, x.shape()[3]}, 0, 0.3F);
  return conv_transpose2d(x, kernel, {.stride = {stride, stride}});
}

/// Every place looks at every other one.
Value attend(ModelBuilder&, const LayerSpec& layer, Value x) {
  if (x.shape().rank() == 2) return x * softmax(x);
  std::vector<std::int64_t> dims = x.shape().dims();
  dims.front() = -1;
  const Value places = reshape(x, {-1, shape_of_one(x).num_elements() / dims.back(), dims.back()});
  if (layer.option % 2 == 1) {
    const Value heads = reshape(x, {-1, 1, places.shape()[1], dims.back()});
    return reshape(attention(heads, heads, heads * 0.5F, {.causal = true}), Shape(dims));
  }
  const Value weights = softmax(matmul(places, places, {.transpose_b = true}));
  return reshape(matmul(weights, places), Shape(dims));
}

Value as_sequence(ModelBuilder&, const LayerSpec&, Value x) {
  if (x.shape().rank() != 4) return x * 0.9F;
  return reshape(x, {-1, x.shape()[1] * x.shape()[2], x.shape()[3]});
}

/// The larger of two tensors, chosen by a comparison.
Value choose(ModelBuilder& model, const LayerSpec& layer, Value x) {
  const Value other = fitted(model.source_of(layer), x);
  return select(greater(x, other), x, other * 0.5F);
}

/// Moved by one place along the second axis; what enters is 0.
Value shift(ModelBuilder&, const LayerSpec&, Value x) {
  const auto rank = static_cast<std::size_t>(x.shape().rank());
  std::vector<std::int64_t> before(rank, 0), begin(rank, 0), size(rank, -1);
  before[1] = 1;
  size[1] = x.shape()[1];
  return x + slice(pad(x, {.before = before, .after = begin}), {.begin = begin, .size = size});
}

Value rows(ModelBuilder&, const LayerSpec& layer, Value x) {
  if (x.shape().rank() == 2) return x * 0.5F;
  if (layer.option % 2 == 0) return pooled_rows(x);
  return reshape(x, {-1, shape_of_one(x).num_elements()});
}

std::vector<LayerKind> make_kinds() {
  std::vector<LayerKind> kinds;
  kinds.push_back({.name = "conv", .weight = 6, .sized = true, .shares = true, .build = convolve});
  kinds.push_back({.name = "dense", .weight = 3, .sized = true, .shares = true, .build = project});
  kinds.push_back({.name = "norm", .weight = 4, .options = 3, .build = normalise});
  kinds.push_back({.name = "activation", .weight = 5, .options = 8, .build = activate});
  kinds.push_back({.name = "add",
                   .weight = 4,
                   .reads_source = true,
                   .build = [](ModelBuilder& model, const LayerSpec& layer, Value x) {
                     return x + fitted(model.source_of(layer), x);
                   }});
  kinds.push_back({.name = "multiply",
                   .weight = 2,
                   .reads_source = true,
                   .build = [](ModelBuilder& model, const LayerSpec& layer, Value x) {
                     return x * fitted(model.source_of(layer), x);
                   }});
  kinds.push_back({.name = "noise", .weight = 2, .options = 2, .build = add_noise});
  kinds.push_back({.name = "scale", .weight = 2, .shares = true, .build = scale});
  kinds.push_back({.name = "gate", .build = gate});
  kinds.push_back({.name = "count", .weight = 2, .shares = true, .options = 2, .build = count});
  kinds.push_back({.name = "loss", .build = lose});
  kinds.push_back({.name = "wait", .reads_source = true, .build = wait});
  kinds.push_back({.name = "rows", .options = 2, .build = rows});
  kinds.push_back({.name = "dropout", .weight = 2, .build = drop});
  kinds.push_back({.name = "pool", .options = 2, .build = pool});
  kinds.push_back({.name = "join", .weight = 2, .reads_source = true, .build = join});
  kinds.push_back({.name = "swap", .build = swap_parts});
  kinds.push_back({.name = "turn", .build = turn});
  kinds.push_back({.name = "lookup", .weight = 2, .shares = true, .build = look_up});
  kinds.push_back({.name = "attend", .weight = 2, .options = 2, .build = attend});
  kinds.push_back({.name = "resize", .options = 2, .build = resized});
  kinds.push_back({.name = "up", .weight = 2, .sized = true, .shares = true, .build = convolve_up});
  kinds.push_back({.name = "sequence", .build = as_sequence});
  kinds.push_back({.name = "choose", .reads_source = true, .build = choose});
  kinds.push_back({.name = "shift", .build = shift});
  return kinds;
}

}  // namespace

Value ModelBuilder::source_of(const LayerSpec& layer) const {
  const auto found = outputs.find(layer.source);
  return found == outputs.end() ? images : in_f32(found->second);
}

Value ModelBuilder::parameter(const LayerSpec& layer, const char* name, const Shape& shape, float mean, float stddev) {
  const auto make = [&] { return variable(name, truncated_normal(graph, shape, {.mean = mean, .stddev = stddev})); };
  if (layer.shared < 0) return make();
  const std::string key = text_of(name, layer.shared, shape.text());
  const auto found = shared.find(key);
  return found != shared.end() ? found->second : shared.emplace(key, make()).first->second;
}

Value ModelBuilder::state(const LayerSpec& layer, const char* name, const Shape& shape, float value) {
  const auto make = [&] { return variable(name, fill(graph, shape, value), {.trainable = false}); };
  if (layer.shared < 0) return make();
  const std::string key = text_of(name, layer.shared, shape.text());
  const auto found = shared.find(key);
  return found != shared.end() ? found->second : shared.emplace(key, make()).first->second;
}

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = make_kinds();
  return kinds;
}

const LayerKind& kind_named(const std::string& name) {
  for (const auto* kinds : {&layer_kinds(), &program_layer_kinds()}) {
    for (const LayerKind& kind : *kinds) {
      if (kind.name == name) return kind;
    }
  }
  throw ArgumentError("'" + name + "' is no kind of layer");
}

Value pooled_rows(Value x) {
  if (x.shape().rank() == 2) return x;
  return reduce_mean(x, {.axes = axes_but(x, {0, x.shape().rank() - 1})});
}

Value fitted(Value x, Value like) {
  if (x.shape() == like.shape()) return x;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(like.shape().rank()), 1);
  dims.front() = -1;
  return reshape(reduce_mean(x, {.axes = axes_but(x, {0})}), Shape(dims));
}

}  // namespace sectionflow::testing

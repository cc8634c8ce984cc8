#include "tests/support/random_graph.h"

#include <iterator>
#include <map>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow::testing_support {
namespace {

constexpr std::int64_t kClasses = 5;

class Builder {
 public:
  Builder(Graph& graph, const RandomModelOptions& options, RandomModel& model)
      : graph_(graph), options_(options), model_(model), random_(options.seed * 2 + 1) {}

  void build() {
    const std::int64_t side = uniform(4, 7);
    const std::int64_t channels = uniform(1, 3);
    model_.images = placeholder(graph_, "images", {kDynamic, side, side, channels});
    model_.labels = placeholder(graph_, "labels", {kDynamic}, Dtype::i32);
    model_.is_training = placeholder(graph_, "is_training", {}, Dtype::boolean);
    const auto num_layers = static_cast<int>(uniform(options_.min_layers, options_.max_layers));
    const auto num_image_layers = static_cast<int>(uniform(1, num_layers));
    model_.text = text_of("seed ", options_.seed, ":");
    Value x = model_.images;
    for (int layer = 0; layer < num_layers; ++layer) {
      if (options_.at_border) options_.at_border(layer);
      if (layer == num_image_layers) x = to_rows(x);
      x = x.shape().rank() == 4 ? image_layer(x) : row_layer(x);
      model_.activations.push_back(x);
      if (layer == num_layers - 1) add_loss(x);
    }
  }

 private:
  std::int64_t uniform(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool chance(int percent) { return uniform(1, 100) <= percent; }
  void note(const char* what) { model_.text += text_of(" ", what); }

  Value image_layer(Value x) {
    if (chance(60)) x = convolution(x);
    return decorate(x);
  }

  Value row_layer(Value x) {
    if (chance(30)) {
      note("dense(shared)");
      return decorate(matmul(x, shared_kernel({x.shape()[1], x.shape()[1]})));
    }
    note("dense");
    return decorate(dense(x, {.features = uniform(3, 9), .bias = chance(70)}));
  }

  /// What may follow the main operation of any layer.
  Value decorate(Value x) {
    if (options_.batch_norm && chance(50)) {
      note("norm");
      x = batch_norm(x, model_.is_training, {.decay = 0.9F});
    }
    if (chance(40)) x = with_earlier(x);
    if (chance(30)) x = x * scale_of(x.shape()[-1]);
    if (options_.random_ops && chance(20)) {
      note("noise");
      const std::vector<std::int64_t> of_one(std::next(x.shape().dims().begin()), x.shape().dims().end());
      x = x + random_normal(graph_, Shape(of_one), {.stddev = 0.1F});
    }
    if (x.shape().rank() == 4 && chance(20)) {
      note("gate");
      x = x * reduce_max(x, {.axes = {1, 2}, .keep_dims = true});
    }
    if (chance(70)) x = relu(x);
    return x;
  }

  Value convolution(Value x) {
    const std::int64_t channels = x.shape()[3];
    if (chance(30)) {
      note("conv(shared)");
      return conv2d(x, shared_kernel({3, 3, channels, channels}));
    }
    note("conv");
    const std::int64_t stride = x.shape()[1] >= 4 && chance(25) ? 2 : 1;
    const std::int64_t side = chance(70) ? 3 : 1;
    const Conv2dOptions options{
        .features = uniform(2, 5), .kernel = {side, side}, .stride = {stride, stride}, .bias = chance(30)};
    return conv2d(x, options);
  }

  /// A sum or product with an earlier tensor of the same shape, if there is one.
  Value with_earlier(Value x) {
    std::vector<Value> fitting;
    for (Value earlier : model_.activations) {
      if (earlier.shape() == x.shape()) fitting.push_back(earlier);
    }
    if (fitting.empty()) return x;
    const Value chosen = fitting[static_cast<std::size_t>(uniform(0, static_cast<std::int64_t>(fitting.size()) - 1))];
    note("skip");
    return chance(70) ? x + chosen : x * chosen;
  }

  /// A parameter that is used wherever there are that many channels.
  Value scale_of(std::int64_t channels) {
    note("scale");
    const auto found = scales_.find(channels);
    if (found != scales_.end()) return found->second;
    const Value initial = truncated_normal(graph_, {channels}, {.mean = 1, .stddev = 0.2F});
    return scales_.emplace(channels, variable("scale", initial)).first->second;
  }

  /// A parameter that is used wherever a kernel of that shape is asked for.
  Value shared_kernel(const Shape& shape) {
    const auto found = kernels_.find(shape.dims());
    if (found != kernels_.end()) return found->second;
    const Value initial = truncated_normal(graph_, shape, {.stddev = 0.3F});
    return kernels_.emplace(shape.dims(), variable("shared_kernel", initial)).first->second;
  }

  Value to_rows(Value x) {
    note("|");
    if (chance(50)) return reduce_mean(x, {.axes = {1, 2}});
    return reshape(x, {-1, x.shape()[1] * x.shape()[2] * x.shape()[3]});
  }

  void add_loss(Value x) {
    if (x.shape().rank() == 4) x = to_rows(x);
    model_.logits = dense(x, {.features = kClasses, .name = "logits"});
    model_.loss = mean(softmax_cross_entropy(model_.logits, model_.labels));
    if (!scales_.empty() && chance(50)) {
      note("penalty");
      const Value scale = scales_.begin()->second;
      model_.loss = model_.loss + reduce_sum(scale * scale) * 0.01F;
    }
  }

  Graph& graph_;
  const RandomModelOptions& options_;
  RandomModel& model_;
  std::mt19937_64 random_;
  std::map<std::int64_t, Value> scales_;                // by channels
  std::map<std::vector<std::int64_t>, Value> kernels_;  // by shape
};

}  // namespace

RandomModel build_random_model(Graph& graph, const RandomModelOptions& options) {
  RandomModel model;
  Builder(graph, options, model).build();
  return model;
}

Optimizer random_optimizer(std::uint64_t seed) {
  if (seed % 2 == 0) return Adam{.learning_rate = 1e-2F};
  return Sgd{.learning_rate = 0.05F};
}

RandomBatch random_batch(const RandomModel& model, std::int64_t batch, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> dims = model.images.shape().dims();
  dims[0] = batch;
  RandomBatch result{HostTensor(Dtype::f32, Shape(dims)), HostTensor(Dtype::i32, {batch})};
  std::uniform_real_distribution<float> level(-1, 1);
  for (float& element : result.images.values<float>()) element = level(random);
  std::uniform_int_distribution<std::int32_t> label(0, kClasses - 1);
  for (std::int32_t& element : result.labels.values<std::int32_t>()) element = label(random);
  return result;
}

TrainableRandomModel::TrainableRandomModel(const RandomModelOptions& options)
    : model(build_random_model(graph, options)) {
  training.targets = minimize(random_optimizer(options.seed), model.loss);
  for (Operation update : graph.operations(kUpdateOperations)) training.targets.push_back(update);
}

}  // namespace sectionflow::testing_support

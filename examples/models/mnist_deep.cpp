#include "examples/models/mnist_deep.h"

#include "autodiff/optimizers.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/pool.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

Value in_scope(Graph& graph, const char* name, const std::function<Value()>& build) {
  const auto scope = graph.scope(name);
  return build();
}

}  // namespace

MnistDeep build_mnist_deep(Graph& graph, float learning_rate) {
  MnistDeep net;
  net.images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  net.labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  net.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  Value x = net.images;
  const auto convolution = [&](std::int64_t filters) {
    return relu(conv2d(x, {.features = filters, .kernel = 5, .bias = true}));
  };
  x = in_scope(graph, "conv1", [&] { return convolution(32); });
  x = in_scope(graph, "pool1", [&] { return max_pool2d(x); });
  x = in_scope(graph, "conv2", [&] { return convolution(64); });
  x = in_scope(graph, "pool2", [&] { return max_pool2d(x); });
  x = in_scope(graph, "fc1", [&] {
    return relu(dense(reshape(x, {-1, 7 * 7 * 64}), {.features = 1024, .kernel_initializer = he_normal()}));
  });
  x = in_scope(graph, "dropout", [&] { return dropout(x, net.is_training, {.rate = 0.5F}); });
  const Value logits = in_scope(graph, "fc2", [&] { return dense(x, {.features = 10}); });
  net.loss = in_scope(graph, "loss", [&] { return mean(softmax_cross_entropy(logits, net.labels)); });
  {
    const auto scope = graph.scope("adam_optimizer");
    net.training = minimize(Adam{.learning_rate = learning_rate}, net.loss);
  }
  net.accuracy = in_scope(graph, "accuracy", [&] { return mean(cast(equal(argmax(logits), net.labels), Dtype::f32)); });
  return net;
}

}  // namespace sectionflow

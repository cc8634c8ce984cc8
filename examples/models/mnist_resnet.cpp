#include "examples/models/mnist_resnet.h"

#include <optional>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

class MnistResnetBuilder {
 public:
  MnistResnetBuilder(Value is_training, float decay) : is_training_(is_training), decay_(decay) {}

  Value conv(Value x, std::int64_t filters, std::int64_t kernel, std::int64_t stride, const char* name) const {
    return conv2d(x, {.features = filters, .kernel = {kernel, kernel}, .stride = {stride, stride}, .name = name});
  }
  Value norm_relu(Value x, const char* name) const {
    return batch_norm(x, is_training_, {.decay = decay_, .relu = true, .name = name});
  }

  /// Pre-activation block. Shapes: x [N, H, W, C], result [N, H / stride, W / stride, filters].
  Value block(Value x, std::int64_t filters, std::int64_t stride) const {
    const auto scope = x.graph().scope("block");
    const Value activated = norm_relu(x, "norm1");
    const bool same = stride == 1 && x.shape()[3] == filters;
    const Value shortcut = same ? x : conv(activated, filters, 1, stride, "shortcut");
    Value y = conv(activated, filters, 3, stride, "conv1");
    y = conv(norm_relu(y, "norm2"), filters, 3, 1, "conv2");
    return shortcut + y;
  }

 private:
  Value is_training_;
  float decay_;
};

constexpr std::int64_t kFilters[] = {16, 32, 64};
constexpr int kBlocks[] = {3, 3, 5};
constexpr int kAllBlocks = 11;

/// Which blocks begin a section; the head counts as one more block after the last.
std::vector<bool> begins_of(const Cut& cut) {
  std::vector<bool> begins(kAllBlocks, false);
  if (cut.sections == 4) {
    begins[3] = begins[6] = true;
  } else if (cut.sections == 2) {
    begins[6] = true;
  } else {
    begins = section_begins(cut, kAllBlocks);
  }
  begins.push_back(cut.sections == 4);
  return begins;
}

}  // namespace

MnistResnet build_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options) {
  MnistResnet net;
  net.images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  net.labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  net.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  const MnistResnetBuilder builder(net.is_training, options.decay);
  std::optional<MixedPrecision> precision;
  if (options.precision != Dtype::f32) precision.emplace(graph, options.precision);

  SectionCutter sections(manager, options.cut);
  Value x = builder.norm_relu(builder.conv(net.images, 16, 3, 1, "stem"), "stem_norm");
  const std::vector<bool> begins = begins_of(options.cut);
  std::size_t index = 0;
  for (int scale = 0; scale < 3; ++scale) {
    const auto scope = graph.scope("scale" + std::to_string(scale));
    for (int block = 0; block < kBlocks[scale]; ++block, ++index) {
      if (index > 0 && begins[index]) sections.cut();
      x = builder.block(x, kFilters[scale], block == 0 && scale > 0 ? 2 : 1);
    }
  }
  if (begins[index]) sections.cut();
  x = reduce_mean(x, {.axes = {1, 2}});
  net.logits = dense(x, {.features = 10, .kernel_initializer = truncated_normal_initializer(1.0F), .name = "fc"});
  net.loss = mean(softmax_cross_entropy(net.logits, net.labels));
  sections.end();

  net.accuracy = mean(cast(equal(argmax(net.logits), net.labels), Dtype::f32));
  manager.add_training_ops(options.optimizer, net.loss, {.ranks = options.ranks, .verbose = options.verbose});
  manager.prepare_training();
  return net;
}

TrainableModel trainable_mnist_resnet(Graph& graph, GraphSectionManager& manager, const MnistResnetOptions& options) {
  const MnistResnet net = build_mnist_resnet(graph, manager, options);
  return {net.loss,
          [net](const Batch& batch) {
            return Feeds{{net.images, batch.images}, {net.labels, batch.labels}, {net.is_training, true}};
          },
          net.logits};
}

}  // namespace sectionflow

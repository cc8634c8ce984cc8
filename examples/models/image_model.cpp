#include "examples/models/image_model.h"

#include "base/error.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"

namespace sectionflow {
namespace {

Shape with_batch(std::vector<std::int64_t> dims) {
  dims.insert(dims.begin(), kDynamic);
  return Shape(dims);
}

Value mean_cross_entropy(Value logits, Value labels) {
  if (logits.shape().rank() == 2) return mean(softmax_cross_entropy(logits, labels));
  const Value rows = reshape(logits, {-1, logits.shape()[-1]});
  return mean(softmax_cross_entropy(rows, reshape(labels, {-1})));
}

}  // namespace

ImageModel build_image_model(Graph& graph, GraphSectionManager& manager, const ImageNetwork& network,
                             const ImageModelOptions& options) {
  ImageModel model;
  std::vector<std::int64_t> label_dims;
  if (options.labels_per_pixel) label_dims.assign(options.image.begin(), options.image.end() - 1);
  model.images = placeholder(graph, "images", with_batch(options.image));
  model.labels = placeholder(graph, "labels", with_batch(label_dims), Dtype::i32);
  model.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);

  const std::vector<ModelBlock> blocks = network(model.is_training);
  for (const AuxiliaryHead& head : options.auxiliary_heads) {
    SF_CHECK(head.block < blocks.size(), ArgumentError, "an auxiliary head behind block ", head.block,
             " of a network of ", blocks.size());
  }
  const std::vector<bool> begins = section_begins(options.cut, static_cast<int>(blocks.size()));
  SectionCutter sections(manager, options.cut);
  Value x = model.images;
  std::vector<Value> auxiliary_losses;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0 && begins[i]) sections.cut();
    x = blocks[i](x);
    for (const AuxiliaryHead& head : options.auxiliary_heads) {
      if (head.block != i) continue;
      auxiliary_losses.push_back(mean_cross_entropy(head.logits(x, model.is_training), model.labels) * head.weight);
    }
  }
  model.logits = x;
  model.loss = mean_cross_entropy(model.logits, model.labels);
  for (const Value& loss : auxiliary_losses) model.loss = model.loss + loss;
  sections.end();
  manager.add_training_ops(options.optimizer, model.loss, {.ranks = options.ranks});
  manager.prepare_training();
  return model;
}

TrainableModel trainable_image_model(Graph& graph, GraphSectionManager& manager, const ImageNetwork& network,
                                     const ImageModelOptions& options) {
  const ImageModel model = build_image_model(graph, manager, network, options);
  return {model.loss,
          [model](const Batch& batch) {
            return Feeds{{model.images, batch.images}, {model.labels, batch.labels}, {model.is_training, true}};
          },
          model.logits};
}

}  // namespace sectionflow

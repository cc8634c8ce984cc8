#include "tests/support/tiny_model.h"

#include <algorithm>
#include <random>

#include "examples/models/section_cutter.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"

namespace sectionflow::testing_support {

TrainableModel build_tiny(Graph& graph, GraphSectionManager& manager, int num_sections, const Optimizer& optimizer) {
  const Value images = placeholder(graph, "images", {kDynamic, 8, 8, 3});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  const Value is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  SectionCutter sections(manager, {});
  Value x = images;
  for (int block = 0; block < 2; ++block) {
    const Value first = relu(batch_norm(conv2d(x, {.features = 8}), is_training, {.decay = 0.9F}));
    const Value second = relu(batch_norm(conv2d(first, {.features = 8}), is_training, {.decay = 0.9F}));
    x = first + second;
    if (block < num_sections - 1) sections.cut();
  }
  const Value logits = dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 4});
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  sections.end();
  manager.add_training_ops(optimizer, loss, {.sections = {.borders = BorderPolicy::keep}});
  manager.prepare_training();
  return {loss, [=](const Batch& batch) {
            return Feeds{{images, batch.images}, {labels, batch.labels}, {is_training, true}};
          }};
}

Strategy tiny_strategy(const std::string& name, int num_sections, const Optimizer& optimizer) {
  return {.name = name,
          .whole_graph = num_sections == 0,
          .build =
              [=](Graph& graph, GraphSectionManager& manager) {
                return build_tiny(graph, manager, std::max(num_sections, 1), optimizer);
              },
          .sections = SectionOptions{.borders = BorderPolicy::keep}};
}

Batch tiny_batch(std::int64_t step, std::int64_t examples) {
  std::mt19937_64 random(static_cast<std::uint64_t>(step) + 77);
  Batch batch{HostTensor(Dtype::f32, {examples, 8, 8, 3}), HostTensor(Dtype::i32, {examples})};
  std::uniform_real_distribution<float> level(0, 1);
  for (float& element : batch.images.values<float>()) element = level(random);
  std::uniform_int_distribution<std::int32_t> label(0, 3);
  for (std::int32_t& element : batch.labels.values<std::int32_t>()) element = label(random);
  return batch;
}

}  // namespace sectionflow::testing_support

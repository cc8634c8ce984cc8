// A network that is built without a scope, and trained in sections all the same: place_cuts finds where they begin, so
// that a step fits two thirds of the memory in as little time as can be. Not a bit of the training changes.

#include <iostream>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

constexpr std::int64_t kBatch = 100;

/// Convolutions with batch norm and shortcuts.
struct Net {
  Graph graph;
  GraphSectionManager manager{graph};
  Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value loss = made();

  Value made() {
    Value x = batch_norm(conv2d(images, {.features = 16}), {.relu = true});
    for (int i = 0; i < 3; ++i) {
      const Value middle = batch_norm(conv2d(x, {.features = 16}), {.relu = true});
      x = x + batch_norm(conv2d(middle, {.features = 16}), {.relu = true});
    }
    return mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 10}), labels));
  }

  /// Sections as `cuts` says, and what trains them.
  void prepare(const PlaceCutsOptions& cuts) {
    manager.place_cuts(cuts);
    manager.add_training_ops(Adam{.learning_rate = 1e-2}, loss);
    manager.prepare_training();
  }
};

/// The loss of each step.
std::vector<float> trained(Net& net, Session& session, const LabeledImages& data) {
  session.initialize();
  BatchLoader loader(data, {.batch = kBatch});
  std::vector<float> losses;
  while (const auto batch = loader.next()) {
    auto [loss] =
        net.manager.run_full_cycle(session, {net.loss}, {{net.images, batch->images}, {net.labels, batch->labels}});
    losses.push_back(loss.item<float>());
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(
          argc, argv, "Trains a network in sections that are placed by a budget, with the bits of the whole."))
    return *status;
  start_logging("17_place_cuts");
  const TrainTest data = synthetic_mnist({.train_size = 2000});

  Net whole;
  whole.prepare({.sections = 1, .batch = kBatch});
  Session ample(whole.graph, {.seed = 1});
  const FeedTypes types = {{whole.images, {kBatch, 28, 28, 1}}, {whole.labels, Shape{kBatch}}};
  const std::size_t needed = whole.manager.plan(ample, {whole.loss}, types).planned_peak_bytes;

  const SessionOptions memory{.device_memory = needed * 2 / 3, .seed = 1};
  std::cout << "the whole graph takes " << bytes_text(needed) << "; the budget is " << bytes_text(needed * 2 / 3)
            << "\n";
  Net cut;
  cut.prepare({.batch = kBatch, .session = memory});
  Session session(cut.graph, memory);
  const FeedTypes same = {{cut.images, {kBatch, 28, 28, 1}}, {cut.labels, Shape{kBatch}}};
  std::cout << cut.manager.plan(session, {cut.loss}, same).text();

  const std::vector<float> wanted = trained(whole, ample, data.train), found = trained(cut, session, data.train);
  std::cout << "loss " << found.front() << " to " << found.back() << " in " << found.size() << " steps, "
            << cut.manager.sections().size()
            << " sections: " << (found == wanted ? "the same bits as at once" : "other bits than at once") << "\n";
  return found == wanted && cut.manager.sections().size() > 1 ? 0 : 1;
}

// A network without a cut in half of the memory that it takes: fit_budget computes again what its budget demands. Not a
// bit of the training changes.

#include <iostream>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

/// Convolutions with batch norm, trained by Adam.
struct Net {
  Graph graph;
  Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value loss = made();
  std::vector<Operation> training = minimize(Adam{.learning_rate = 1e-2}, loss);

  Value made() {
    Value x = images;
    for (int i = 0; i < 6; ++i) x = batch_norm(conv2d(x, {.features = 16}), {.relu = true});
    return mean(softmax_cross_entropy(dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 10}), labels));
  }
};

/// The loss of each step.
std::vector<float> trained(Net& net, Session& session, const LabeledImages& data) {
  BatchLoader loader(data, {.batch = 100});
  std::vector<float> losses;
  while (const auto batch = loader.next()) {
    auto [loss] =
        session.run({net.loss}, {{net.images, batch->images}, {net.labels, batch->labels}}, {.targets = net.training});
    losses.push_back(loss.item<float>());
  }
  return losses;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(
          argc, argv, "Trains a network without a cut in half of the memory that it takes, with the same bits."))
    return *status;
  start_logging("16_fit_budget");
  const TrainTest data = synthetic_mnist({.train_size = 2000});
  Net net;
  const FeedTypes types = {{net.images, {100, 28, 28, 1}}, {net.labels, Shape{100}}};

  Session whole(net.graph, {.seed = 1});
  whole.initialize();
  const ProgramReport needed = whole.plan({net.loss}, types, {.targets = net.training});
  const std::size_t half = needed.persistent_bytes + needed.transient_bytes / 2;
  std::cout << "the whole graph takes " << bytes_text(needed.planned_peak_bytes) << "; the budget is "
            << bytes_text(half) << "\n";

  Session small(net.graph, {.device_memory = half, .seed = 1});
  fit_budget(small);
  small.initialize();  // first: what is planned before it is planned once more behind it
  std::cout << small.plan({net.loss}, types, {.targets = net.training}).text();

  const std::vector<float> wanted = trained(net, whole, data.train), found = trained(net, small, data.train);
  std::cout << "loss " << found.front() << " to " << found.back() << " in " << found.size()
            << " steps: " << (found == wanted ? "the same bits as with all memory" : "other bits than with all memory")
            << "\n";
  return found == wanted ? 0 : 1;
}

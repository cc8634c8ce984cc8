// An operation of one's own in a network that is trained whole, and in sections that compute it again.

#include <iostream>

#include "examples/no_arguments.h"
#include "swish.h"

namespace {

using namespace sectionflow;

std::vector<float> losses(bool in_sections) {
  const TrainTest data = synthetic_mnist({.train_size = 800, .test_size = 10});
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = flatten(images), loss;
  for (int i = 0; i < 3; ++i) {
    auto section = manager.new_section();
    x = acme::swish(dense(x, {.features = 64}), {.slope = 1.5F});
  }
  {
    auto section = manager.new_section();
    loss = mean(softmax_cross_entropy(dense(x, {.features = 10}), labels));
  }
  manager.add_training_ops(Adam{.learning_rate = 3e-3F}, loss);
  manager.prepare_training();

  Session session(graph, {.device_memory = 8_MiB});
  session.initialize();
  BatchLoader loader(data.train, {.batch = 100, .epochs = 3});
  std::vector<float> found;
  while (const auto batch = loader.next()) {
    const Feeds feeds = {{images, batch->images}, {labels, batch->labels}};
    const auto [value] = in_sections ? manager.run_full_cycle(session, {loss}, feeds)
                                     : session.run({loss}, feeds, {.targets = manager.training_operations()});
    found.push_back(value.item<float>());
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = sectionflow::answer_arguments(
          argc, argv, "Trains a network with an operation of its own, whole and in sections."))
    return *status;
  acme::register_swish();
  const std::vector<float> whole = losses(false), cut = losses(true);
  std::cout << "loss " << whole.front() << " at first, " << whole.back()
            << " at last; the same in sections: " << (whole == cut ? "yes" : "no") << "\n";
  return whole == cut && whole.back() < 0.5F * whole.front() ? 0 : 1;
}

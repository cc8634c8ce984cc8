// A network of one's own in two sections, trained under a budget that the whole graph would not fit.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status = answer_arguments(
          argc, argv, "Trains a small network in two sections, under a budget that the whole graph would not fit."))
    return *status;
  start_logging("03_own_network");
  const TrainTest data = synthetic_mnist({.train_size = 2000});
  BatchLoader loader(data.train, {.batch = 100});

  // README.md shows the lines from here on.
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = images, loss;
  {
    auto section = manager.new_section();
    x = batch_norm(conv2d(x, {.features = 16}), {.relu = true});
    x = batch_norm(conv2d(x, {.features = 32, .stride = 2}), {.relu = true});
  }
  {
    auto section = manager.new_section();
    x = batch_norm(conv2d(x, {.features = 64}), {.relu = true});
    x = dense(reduce_mean(x, {.axes = {1, 2}}), {.features = 10});
    loss = mean(softmax_cross_entropy(x, labels));
  }
  manager.add_training_ops(Adam{.learning_rate = 1e-2}, loss);
  manager.prepare_training();
  Session session(graph, {.device_memory = 24_MiB});
  session.initialize();
  while (const auto batch = loader.next()) {
    auto [value] = manager.run_full_cycle(session, {loss}, {{images, batch->images}, {labels, batch->labels}});
    std::cout << "loss " << value.item<float>() << "\n";
  }
}

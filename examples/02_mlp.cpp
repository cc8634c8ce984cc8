// A multi-layer perceptron on images of digits' size: layers, batches, training and evaluation.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status = answer_arguments(argc, argv, "Trains a multi-layer perceptron on synthetic images."))
    return *status;
  start_logging("02_mlp");
  const TrainTest data = synthetic_mnist({.train_size = 4000, .test_size = 500});

  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = flatten(images);
  x = relu(dense(x, {.features = 128}));
  x = relu(dense(x, {.features = 64}));
  const Value logits = dense(x, {.features = 10});
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  const Value accuracy = mean(cast(equal(argmax(logits), labels), Dtype::f32));
  const std::vector<Operation> training = minimize(Adam{.learning_rate = 1e-3}, loss);

  Session session(graph, {.device_memory = 16_MiB});
  session.initialize();
  BatchLoader loader(data.train, {.batch = 100, .epochs = 3});
  std::int64_t step = 0;
  while (const auto batch = loader.next()) {
    const auto [value] = session.run({loss}, {{images, batch->images}, {labels, batch->labels}}, {.targets = training});
    if (step++ % 20 == 0) std::cout << "step " << step - 1 << "  loss " << value.item<float>() << "\n";
  }

  // Another batch size is another program of the same session: the variables are shared.
  BatchLoader test(data.test, {.batch = 500});
  const auto batch = test.next();
  const auto [share] = session.run({accuracy}, {{images, batch->images}, {labels, batch->labels}});
  std::cout << "test accuracy: " << share.item<float>() << "\n";
  return share.item<float>() > 0.8F ? 0 : 1;
}

// What happens between gradients and variables: batches too large for memory taken in parts, two optimisers, and an
// average of the weights, which is what is evaluated in the end.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status = answer_arguments(
          argc, argv, "Accumulates gradients, trains by two optimisers, and evaluates averages of the weights."))
    return *status;
  start_logging("12_updates");
  const TrainTest data = synthetic_mnist({.train_size = 3000, .test_size = 500});

  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value x = images, loss, right;
  {
    auto section = manager.new_section("encoder");
    const auto names = graph.scope("encoder");
    x = max_pool2d(relu(conv2d(x, {.features = 16, .stride = 2, .bias = true})));
  }
  {
    auto section = manager.new_section("head");
    const auto names = graph.scope("head");
    x = dense(flatten(x), {.features = 10});
    loss = mean(softmax_cross_entropy(x, labels));
    right = accuracy(x, labels);
  }
  // docs/training.md shows the lines from here on.
  const std::vector<ParameterGroup> groups = {
      {.variables = "encoder/*", .optimizer = Adam{.learning_rate = 1e-2F}},
      {.variables = "head/*", .optimizer = Sgd{.learning_rate = 0.1F}, .weight_decay = 1e-4F}};
  manager.add_training_ops(groups, loss,
                           {.clip_norm = 5,
                            .micro_batches = 4,  // of 25 images each: updates by 100
                            .average = WeightAverageOptions{.decay = 0.9F}});
  manager.prepare_training();

  Session session(graph, {.device_memory = 8_MiB});
  session.initialize();
  Trainer trainer(session, manager, {.loss = loss, .metrics = {{"accuracy", right}}});
  DatasetBatches train(Dataset::from(data.train).shuffle({.seed = 1}).map(maps::normalize()).batch({.size = 25}));
  DatasetBatches test(Dataset::from(data.test).map(maps::normalize()).batch({.size = 100}));
  Progress progress;
  trainer.fit(train, {.epochs = 6, .callbacks = {&progress}});

  const Logs weights = trainer.evaluate(test);
  const AveragedWeights averaged(session, manager.updates().averages);  // as long as it lives
  const Logs averages = trainer.evaluate(test);
  // Here the lines end.
  std::cout << trainer.step() << " micro-batches, " << session.completed_cycles() << " updates; test loss "
            << weights.at("loss") << " and accuracy " << weights.at("accuracy") << ", of the averages "
            << averages.at("loss") << " and " << averages.at("accuracy") << "\n";
  const bool is_trained = weights.at("accuracy") > 0.7 && averages.at("accuracy") > 0.7;
  return is_trained && session.completed_cycles() * 4 == static_cast<std::uint64_t>(trainer.step()) ? 0 : 1;
}

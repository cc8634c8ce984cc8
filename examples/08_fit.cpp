// Keras's style: fit, evaluate and predict over a network in sections, with callbacks around the steps.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status =
          answer_arguments(argc, argv, "Fits a small network in sections, with callbacks around the steps."))
    return *status;
  start_logging("08_fit");
  const TrainTest data = synthetic_mnist({.train_size = 3000, .test_size = 500});

  // docs/training.md shows the lines from here on.
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value rate = placeholder(graph, "learning_rate", {});
  Value x = images, loss, accuracy;
  {
    auto section = manager.new_section("stem");
    x = batch_norm(conv2d(x, {.features = 16, .stride = 2}), {.decay = 0.9F, .relu = true});
  }
  {
    auto section = manager.new_section("head");
    x = batch_norm(conv2d(x, {.features = 32, .stride = 2}), {.decay = 0.9F, .relu = true});
    x = dense(flatten(x), {.features = 10});
    loss = mean(softmax_cross_entropy(x, labels));
    accuracy = mean(cast(equal(argmax(x), labels), Dtype::f32));
  }
  manager.add_training_ops(Adam{.learning_rate = rate}, loss);
  manager.prepare_training();
  std::cout << summary(graph, {.batch = 100}).text();

  Session session(graph, {.device_memory = 16_MiB});
  session.initialize();
  Trainer trainer(session, manager, {.loss = loss, .metrics = {{"accuracy", accuracy}}, .outputs = {{"logits", x}}});

  ImageBatches train(data.train, {.batch = 64});  // 46 batches, and one of 56 images
  ImageBatches test(data.test, {.batch = 100, .shuffle = false});
  LearningRate schedule(rate, warm_up(10, cosine_rate(1e-2, 200)));
  EarlyStopping stopping({.monitor = "val_accuracy", .higher_is_better = true, .patience = 2, .restore_best = true});
  Progress progress;
  const History history = trainer.fit(train, {.epochs = 4,
                                              .validation = &test,
                                              .callbacks = {&schedule, &stopping, &progress},
                                              .handle_signals = true});  // Ctrl-C: finish the step, then end

  const Logs results = trainer.evaluate(test);
  const Example predicted = trainer.predict(test);
  // Here the lines end.
  std::cout << history.why << "; loss " << history.of("loss").back() << ", test accuracy " << results.at("accuracy")
            << ", logits " << predicted.at("logits").type().text() << "\n";
  if (history.signal != 0) return history.exit_code();
  return results.at("accuracy") > 0.8 ? 0 : 1;
}

// Estimators' style: steps instead of epochs, input functions instead of data sets, train_and_evaluate; the whole
// graph, swapped by levels as TensorFlow Large Model Support does it.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

int main(int argc, char** argv) {
  using namespace sectionflow;
  if (const auto status =
          answer_arguments(argc, argv, "Trains and evaluates by steps, with swapping by levels as a callback."))
    return *status;
  start_logging("09_estimator");
  const TrainTest data = synthetic_mnist({.train_size = 3000, .test_size = 500});

  // docs/training.md shows the lines from here on.
  // The batch-th batch of a pass, of any source; images as they lie in files: u8.
  const auto input_function = [](const LabeledImages& images, std::int64_t size) {
    return FunctionBatches([&images, size](std::int64_t, std::int64_t batch) -> std::optional<Example> {
      const std::int64_t first = batch * size, pixels = 28 * 28;
      if (first >= images.labels.num_elements()) return std::nullopt;
      const std::int64_t count = std::min(size, images.labels.num_elements() - first);
      const auto levels = images.images.values<std::uint8_t>().subspan(first * pixels, count * pixels);
      const auto classes = images.labels.values<std::int32_t>().subspan(first, count);
      Example example;
      example.emplace("image", HostTensor::of<std::uint8_t>({count, 28, 28, 1}, {levels.begin(), levels.end()}));
      example.emplace("label", HostTensor::of<std::int32_t>({count}, {classes.begin(), classes.end()}));
      return example;
    });
  };

  Graph graph;
  const Value images = placeholder(graph, "images", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = max_pool2d(relu(conv2d(images, {.features = 16, .bias = true})));
  x = max_pool2d(relu(conv2d(x, {.features = 32, .bias = true})));
  const Value logits = dense(flatten(x), {.features = 10});
  const Value loss = mean(softmax_cross_entropy(logits, labels));
  const Value accuracy = mean(cast(equal(argmax(logits), labels), Dtype::f32));
  const std::vector<Operation> training = minimize(Adam{.learning_rate = 1e-3}, loss);

  Session session(graph, {.device_memory = 64_MiB});
  session.initialize();
  Trainer trainer(session, training,
                  {.loss = loss,
                   .metrics = {{"accuracy", accuracy}},
                   .inputs = {{"image", images, unit_range()}, {"label", labels}}});
  FunctionBatches train = input_function(data.train, 100), test = input_function(data.test, 100);
  LmsCallback lms(graph, {.swapout_threshold = 5, .swapin_groupby = 2, .swapin_ahead = 3});
  Progress progress;
  const auto [results, history] =
      train_and_evaluate(trainer, {.source = &train, .max_steps = 90, .callbacks = {&lms, &progress}},
                         {.source = &test, .every_steps = 30});
  // Here the lines end.
  std::cout << history.why << "; loss " << results.at("loss") << ", test accuracy " << results.at("accuracy") << ", "
            << lms.result()->num_swap_outs << " tensors swapped\n";
  return results.at("accuracy") > 0.8 && lms.result()->num_swap_outs > 0 ? 0 : 1;
}

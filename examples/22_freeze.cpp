// From a trained network to one that labels images: variables become constants, what is known beforehand is computed
// once, and the file that comes of it is all that a program for inference needs.

#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "examples/models/mnist_resnet.h"
#include "examples/no_arguments.h"
#include "examples/temporary_folder.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

/// What images are taken for.
std::vector<std::int64_t> labels_of(const HostTensor& logits) {
  std::vector<std::int64_t> labels;
  for (const auto& likeliest : top_classes(logits, 1)) labels.push_back(likeliest.front().label);
  return labels;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Freezes a trained network, and labels images with it."))
    return *status;
  start_logging("22_freeze");
  const TrainTest data = synthetic_mnist({.train_size = 1000, .test_size = 100});

  // The network of 03_mnist_sections, trained for a moment.
  Graph graph;
  GraphSectionManager manager(graph);
  const MnistResnet net =
      build_mnist_resnet(graph, manager, {.optimizer = Adam{.learning_rate = 1e-3F}, .decay = 0.9F});
  Session session(graph, {.device_memory = 256_MiB});
  session.initialize();
  BatchLoader loader(data.train, {.batch = 50, .epochs = 1});
  while (const auto batch = loader.next()) {
    manager.run_full_cycle(session, {net.loss},
                           {{net.images, batch->images}, {net.labels, batch->labels}, {net.is_training, true}});
  }

  // docs/inference.md shows the lines from here on.
  InferenceGraph frozen = freeze(session, {net.logits}, {.feeds = {{net.is_training, false}}});
  frozen = transform_graph(frozen, "strip_unused_nodes fold_constants fold_batch_norms fuse");

  const TemporaryFolder folder("22_freeze");
  const std::string path = folder.path() / "digits.safetensors";
  save_inference_graph(frozen, path);

  const InferenceGraph digits = load_inference_graph(path);
  Session inference(*digits.graph, {.device_memory = 32_MiB});
  inference.initialize();  // brings the constants to their places, where they stay
  const Batch test = *BatchLoader(data.test, {.batch = 100, .shuffle = false}).next();
  auto logits = inference.run(digits.outputs, {{digits["images"], test.images}});
  // Here the lines end.

  auto [trained] = session.run({net.logits}, {{net.images, test.images}, {net.is_training, false}});
  const std::vector<std::int64_t> labels = labels_of(logits[0]);
  const bool same = labels == labels_of(trained);
  std::cout << graph.num_nodes() << " operations trained, " << digits.graph->num_nodes() << " label; "
            << std::filesystem::file_size(path) / 1024 << " KiB; first labels " << labels[0] << " " << labels[1] << " "
            << labels[2] << "; the same labels: " << (same ? "yes" : "no") << "\n";
  return same ? 0 : 1;
}

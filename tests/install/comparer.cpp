// Somebody else's program that compares strategies with the installed library, and writes the page of it to the folder
// that it is given. It fails unless all give the same bits.

#include <cstdio>
#include <exception>
#include <iostream>

#include "compare/compare.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

TrainableModel two_layers(Graph& graph, GraphSectionManager& manager) {
  const Value images = placeholder(graph, "images", {kDynamic, 4, 4, 1});
  const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  Value x = reshape(images, {-1, 16}), loss;
  {
    auto section = manager.new_section();
    x = relu(dense(x, {.features = 8}));
  }
  {
    auto section = manager.new_section();
    loss = mean(softmax_cross_entropy(dense(x, {.features = 3}), labels));
  }
  manager.add_training_ops(Sgd{.learning_rate = 0.1F}, loss);
  manager.prepare_training();
  return {loss, [=](const Batch& batch) { return Feeds{{images, batch.images}, {labels, batch.labels}}; }};
}

Batch batch_of(std::int64_t step) {
  Batch batch{HostTensor(Dtype::f32, {6, 4, 4, 1}), HostTensor(Dtype::i32, {6})};
  for (std::size_t i = 0; i < 96; ++i) {
    batch.images.values<float>()[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(step)) % 11) - 5.0F;
  }
  for (std::size_t i = 0; i < 6; ++i) batch.labels.values<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
  return batch;
}

int run(const char* folder) {
  const StrategySource source{.model = [](const std::string&) { return ModelBuilder(two_layers); }};
  const Comparison comparison =
      compare_strategies({strategy_named("whole", source), strategy_named("sections:2", source)},
                         {.model = "two layers", .steps = 2, .session = {.threads = 1}, .batch = batch_of});
  write_report(comparison, folder);
  try {
    (void)strategy_named("hole", source);
    std::cerr << "a strategy that is none was taken\n";
    return 1;
  } catch (const ArgumentError& error) {
    std::cout << comparison.text() << error.what() << "\n";
  }
  return comparison.all_identical() && comparison.strategies.size() == 2 && comparison.strategies[1].fits ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2) return run(argv[1]);
    std::cerr << "usage: comparer FOLDER\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}

// Two towers in one process train one net, each on a device with a thread and a budget of its own and with its half of
// every batch, as bit for bit one session does that takes the halves one after the other.

#include <iostream>
#include <vector>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

constexpr int kTowers = 2;
constexpr std::int64_t kBatch = 64;

/// The net, as one builds it for one device; its updates take the gradients of all towers.
TowerOutputs build(Graph& graph, GraphSectionManager& manager, int towers, int micro_batches) {
  const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value x = images, loss;
  {
    auto section = manager.new_section("stem");
    x = relu(batch_norm(conv2d(x, {.features = 8, .stride = 2}), {.decay = 0.9F}));
  }
  {
    auto section = manager.new_section("middle");
    x = dropout(relu(batch_norm(conv2d(x, {.features = 16, .stride = 2}), {.decay = 0.9F})), {.rate = 0.2F});
  }
  {
    auto section = manager.new_section("head");
    x = dense(flatten(x), {.features = 10});
    loss = mean(softmax_cross_entropy(x, labels));
  }
  manager.add_training_ops(Adam{.learning_rate = 2e-3F}, loss,
                           {.clip_norm = 5, .micro_batches = micro_batches, .ranks = towers});
  manager.prepare_training();
  return {{"loss", loss}, {"class", argmax(x)}};
}

/// What training leaves: the loss of every half of every batch.
using Losses = std::vector<float>;

/// Trains an epoch by towers.
Losses train(Towers& towers, const Dataset& data) {
  Losses losses;
  DatasetBatches batches(data.batch({.size = kBatch, .drop_remainder = true}));
  // docs/many_devices.md shows the lines from here on.
  towers.initialize();
  while (const auto batch = batches.next()) {
    const Example step = towers.train(*batch, {"loss"});
    for (const float loss : step.at("loss").values<float>()) losses.push_back(loss);  // [2]: one of each tower
  }
  // Here the lines end.
  return losses;
}

/// Trains an epoch in one session, which takes the halves of each batch as micro-batches.
Losses train(Session& session, GraphSectionManager& manager, Value loss, const Dataset& data) {
  Losses losses;
  const Graph& graph = session.graph();
  const Value images = graph.find("image").output(), labels = graph.find("label").output();
  DatasetBatches halves(data.batch({.size = kBatch / kTowers, .drop_remainder = true}));
  session.initialize();
  while (const auto half = halves.next()) {
    const auto [value] =
        manager.run_full_cycle(session, {loss}, {{images, half->at("image")}, {labels, half->at("label")}});
    losses.push_back(value.item<float>());
  }
  return losses;
}

/// The share of images whose class the towers tell.
double accuracy_of(Towers& towers, const Dataset& data) {
  DatasetBatches batches(data.batch({.size = kBatch, .drop_remainder = true}));
  int right = 0, seen = 0;
  while (const auto batch = batches.next()) {
    const Example told = towers.run(*batch, {"class"});
    const auto classes = told.at("class").values<std::int32_t>();  // [64]: of both halves
    const auto labels = batch->at("label").values<std::int32_t>();
    for (std::size_t i = 0; i < labels.size(); ++i, ++seen) right += classes[i] == labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / seen;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains by two towers, and compares with one session."))
    return *status;
  start_logging("21_towers");
  const TrainTest data = synthetic_mnist({.train_size = 5120, .test_size = 256});
  const Dataset train_data = Dataset::from(data.train).shuffle({.seed = 1}).map(maps::normalize());
  const Dataset test_data = Dataset::from(data.test).map(maps::normalize());

  // docs/many_devices.md shows the lines from here on.
  const auto tower = [](Graph& graph, GraphSectionManager& manager) { return build(graph, manager, kTowers, 1); };
  Towers towers = make_parallel(tower,
                                {cpu(0, {.device_memory = 16_MiB, .threads = 1}),  //
                                 cpu(1, {.device_memory = 8_MiB, .threads = 1})},
                                {"image", "label"});
  // Here the lines end.
  const Losses losses = train(towers, train_data);

  Graph graph;
  GraphSectionManager manager(graph);
  const TowerOutputs outputs = build(graph, manager, 1, kTowers);
  Session session(graph, {.threads = 1});
  const Losses alone = train(session, manager, outputs.at("loss").value, train_data);

  bool alike = losses == alone;
  for (const Value& variable : towers.tower(0).graph().values(kVariables)) {
    alike = alike && bitwise_equal(towers.read(variable.name()), session.read(graph.find(variable.name()).output()));
  }
  const double accuracy = accuracy_of(towers, test_data);
  std::cout << towers.size() << " towers on " << towers.tower(0).device() << " and " << towers.tower(1).device() << ": "
            << towers.completed_cycles() << " updates by batches of " << kBatch << ", loss " << losses.front() << " to "
            << losses.back() << ", test accuracy " << accuracy << "; identical: " << (alike ? "yes" : "no") << "\n";
  return alike && accuracy > 0.5 ? 0 : 1;
}

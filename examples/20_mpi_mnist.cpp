// Two processes train one net, each with batches of its own, as bit for bit one process does that accumulates:
//   mpirun -n 2 20_mpi_mnist
// Started by itself, or where there is no MPI, it has two threads in the place of processes.

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <thread>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

/// What the session of one rank, or of one process, is made of.
struct Net {
  explicit Net(int ranks, int micro_batches) {
    Value x = images;
    {
      auto section = manager.new_section("stem");
      x = relu(batch_norm(conv2d(x, {.features = 8, .stride = 2})));
    }
    {
      auto section = manager.new_section("middle");
      x = dropout(relu(batch_norm(conv2d(x, {.features = 16, .stride = 2}))), {.rate = 0.2F});
    }
    {
      auto section = manager.new_section("head");
      loss = mean(softmax_cross_entropy(dense(flatten(x), {.features = 10}), labels));
    }
    manager.add_training_ops(Adam{.learning_rate = 2e-3F}, loss,
                             {.clip_norm = 5, .micro_batches = micro_batches, .ranks = ranks});
    manager.prepare_training();
  }

  Graph graph;
  GraphSectionManager manager{graph};
  const Value images = placeholder(graph, "image", {kDynamic, 28, 28, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  Value loss;
};

using Variables = std::map<std::string, HostTensor>;

/// Trains an epoch of the batches and gives the variables.
Variables train(Net& net, const Dataset& batches, SessionOptions options) {
  options.threads = 1;
  Session session(net.graph, options);
  session.initialize();
  Trainer trainer(session, net.manager, {.loss = net.loss});
  DatasetBatches source(batches);
  trainer.fit(source, {.epochs = 1});
  Variables variables;
  for (const Value& variable : net.graph.values(kVariables)) variables.emplace(variable.name(), session.read(variable));
  return variables;
}

/// Whether every rank has these bytes.
bool same_on_all(Communicator& ranks, const HostTensor& mine) {
  std::vector<std::byte> all(mine.num_bytes() * static_cast<std::size_t>(ranks.size()));
  ranks.all_gather({mine.bytes(), mine.num_bytes()}, all);
  for (std::size_t first = 0; first < all.size(); first += mine.num_bytes()) {
    if (!std::equal(mine.bytes(), mine.bytes() + mine.num_bytes(), all.begin() + static_cast<std::ptrdiff_t>(first)))
      return false;
  }
  return true;
}

/// Whether all ranks, and one process that takes their batches as micro-batches, have come to the same variables.
bool trains_alike(const std::shared_ptr<Communicator>& communicator, const Dataset& batches) {
  const int rank = communicator->rank(), ranks = communicator->size();
  Net own(ranks, 1);
  const Variables trained =
      train(own, batches.shard(ranks, rank, {.drop_remainder = true}), {.communicator = communicator});
  bool alike = true;
  for (const auto& [name, tensor] : trained) alike = same_on_all(*communicator, tensor) && alike;
  if (rank != 0) return alike;
  const std::int64_t taken = *batches.size() / ranks * ranks;
  Net whole(1, ranks);
  const Variables alone = train(whole, batches.take(taken), {});
  for (const auto& [name, tensor] : trained) alike = alike && bitwise_equal(tensor, alone.at(name));
  std::cout << communicator->description() << ": " << taken / ranks << " updates of " << ranks << " batches, "
            << trained.size() << " variables; identical: " << (alike ? "yes" : "no") << "\n";
  return alike;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = answer_arguments(argc, argv, "Trains by several processes, and compares with one."))
    return *status;
  start_logging("20_mpi_mnist");
  const TrainTest data = synthetic_mnist({.train_size = 1200, .test_size = 100});
  const Dataset batches =
      Dataset::from(data.train).shuffle({.seed = 1}).map(maps::normalize()).batch({.size = 32, .drop_remainder = true});
  std::shared_ptr<Communicator> of_process;
  try {
    of_process = mpi_communicator();
  } catch (const CommunicationError& error) {
    std::cout << "Two threads instead of processes: " << error.what() << "\n";
  }
  if (of_process != nullptr && of_process->size() > 1) return trains_alike(of_process, batches) ? 0 : 1;
  std::vector<std::shared_ptr<Communicator>> communicators = in_process_communicators(2);
  bool other_alike = false;
  std::thread other([&] { other_alike = trains_alike(communicators[1], batches); });
  const bool alike = trains_alike(communicators[0], batches);
  other.join();
  return alike && other_alike ? 0 : 1;
}

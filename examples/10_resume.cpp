// A training that is killed in its middle and started again ends with the bytes of one to which nothing has happened.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

/// What a machine does that loses power behind a step.
struct PowerCut final : Callback {
  explicit PowerCut(std::int64_t step) : step(step) {}
  void on_step(const TrainerState& state) override {
    if (state.step == step) std::raise(SIGKILL);
  }
  std::int64_t step;
};

/// Begins a training in a folder, or goes on with the one that is there. Returns all variables at its end.
std::map<std::string, HostTensor> train_in(const std::string& folder, std::int64_t killed_at) {
  const TrainTest data = synthetic_mnist({.train_size = 1500, .test_size = 10});
  Graph graph;
  GraphSectionManager manager(graph);
  const Value images = placeholder(graph, "image", {kDynamic, 24, 24, 1});
  const Value labels = placeholder(graph, "label", {kDynamic}, Dtype::i32);
  const Value rate = placeholder(graph, "learning_rate", {});
  Value x = images, loss;
  {
    auto section = manager.new_section("stem");
    x = batch_norm(conv2d(x, {.features = 8, .stride = 2}), {.relu = true});
  }
  {
    auto section = manager.new_section("head");
    x = dropout(flatten(max_pool2d(x)), {.rate = 0.25F});
    loss = mean(softmax_cross_entropy(dense(x, {.features = 10}), labels));
  }
  manager.add_training_ops(Adam{.learning_rate = rate}, loss);
  manager.prepare_training();
  Session session(graph, {.device_memory = 16_MiB, .seed = 7});

  // docs/training.md shows the lines from here on.
  const Dataset batches = Dataset::from(data.train)
                              .shuffle({.seed = 1})
                              .map(maps::random_crop({.height = 24, .width = 24}), {.seed = 2})
                              .map(maps::normalize(), {.threads = 2})
                              .batch({.size = 50})
                              .prefetch();
  DatasetBatches train(batches);
  Trainer trainer(session, manager, {.loss = loss});
  LearningRate schedule(rate, cosine_rate(1e-2, 100));
  PowerCut power_cut(killed_at);
  Checkpoints checkpoints(folder, {.keep = 2});
  CheckpointCallback saving(checkpoints, {.every_steps = 10});

  session.initialize();
  resume(trainer, checkpoints);  // where there is nothing yet, the training begins
  const History history =
      trainer.fit(train, {.max_steps = 100, .callbacks = {&schedule, &saving, &power_cut}, .handle_signals = true});
  // Here the lines end.
  std::cout << folder << ": trained " << history.steps << " of " << trainer.step() << " steps; waited "
            << history.data_seconds << " s for data\n";

  std::map<std::string, HostTensor> variables;
  for (const Value& variable : graph.values(kVariables)) variables[variable.name()] = session.read(variable);
  return variables;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status =
          answer_arguments(argc, argv, "Trains, is killed in the middle, is started again, and compares the bytes."))
    return *status;
  start_logging("10_resume");
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("10_resume-" + std::to_string(getpid()));
  const std::string killed = folder / "killed", undisturbed = folder / "undisturbed";

  // Killed behind step 57, in its second epoch: the last checkpoint is that of step 50.
  const pid_t child = fork();
  if (child == 0) {
    train_in(killed, 57);
    _exit(1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    std::cout << "the training was to be killed, and was not\n";
    return 1;
  }
  const auto resumed = train_in(killed, -1), expected = train_in(undisturbed, -1);
  fs::remove_all(folder);

  bool is_same = resumed.size() == expected.size();
  for (const auto& [name, tensor] : expected) {
    is_same = is_same && resumed.contains(name) && bitwise_equal(tensor, resumed.at(name));
  }
  std::cout << expected.size() << " variables; killed and resumed as if never interrupted: " << (is_same ? "yes" : "no")
            << "\n";
  return is_same ? 0 : 1;
}

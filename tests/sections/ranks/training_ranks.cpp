// One rank of a training by several processes, which mpirun starts.
//   training_ranks                       trains some updates, and compares each with one process
//   training_ranks FOLDER UPDATES MS     goes on from the last checkpoint of the folder until it has so many updates,
//   or
//                                        another rank has not come for so many milliseconds
// A rank prints lines that begin with "rank 1: ". kill_ranks.py reads those of the second form.

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "base/log.h"
#include "comm/communicator.h"
#include "data/tensor_hashes.h"
#include "tests/sections/accumulated_net.h"
#include "train/checkpoints.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::testing;

constexpr int kSkipped = 77;
const Adam kAdam{.learning_rate = 1e-2F};

SessionOptions options_of(const std::shared_ptr<Communicator>& communicator) {
  return {.threads = 1, .seed = 7, .communicator = communicator};
}

void say(const Communicator& communicator, const std::string& text) {
  std::string line = text_of("rank ", communicator.rank(), ": ", text);
  for (char& letter : line) letter = letter == '\n' ? ' ' : letter;
  line += '\n';
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

Variables variables_of(Accumulating& training) {
  Variables variables;
  for (const Value& variable : training.graph.values(kVariables)) {
    variables.emplace(variable.name(), training.session->read(variable));
  }
  return variables;
}

std::string hash_of(Accumulating& training) {
  std::string hashes;
  for (const auto& [name, tensor] : variables_of(training)) hashes += tensor_hash(tensor.view());
  return text_hash(hashes);
}

// ---- Beside one process.

int compare_with_one_process(const std::shared_ptr<Communicator>& communicator, int updates,
                             const TrainingOptions& options) {
  const int ranks = communicator->size();
  Accumulating own(options, kAdam, options_of(communicator));
  Accumulating whole({.micro_batches = ranks}, kAdam, options_of(nullptr));
  std::size_t compared = 0, different = 0;
  for (int update = 0; update < updates; ++update) {
    (void)own.cycle(update * ranks + communicator->rank());
    for (int batch = 0; batch < ranks; ++batch) (void)whole.cycle(update * ranks + batch);
    const Variables trained = variables_of(own);
    compared += trained.size();
    different += changed_names(trained, variables_of(whole)).size();
  }
  say(*communicator, text_of(communicator->description(), ", distribution ", static_cast<int>(options.distribution),
                             ", ", updates, " updates, ", compared,
                             " variables compared; identical: ", different == 0 && compared > 0 ? "yes" : "no"));
  return different == 0 && compared > 0 ? 0 : 1;
}

int compare_all(const std::shared_ptr<Communicator>& communicator) {
  const int ranks = communicator->size();
  TrainingOptions options{.ranks = ranks};
  int failed = compare_with_one_process(communicator, 4, options);
  for (const auto distribution : {VariableDistribution::sharded, VariableDistribution::parameter_server,
                                  VariableDistribution::distributed_replicated}) {
    options.distribution = distribution;
    failed += compare_with_one_process(communicator, 2, options);
  }
  options.server = ranks - 1;
  return failed + compare_with_one_process(communicator, 2, options);
}

// ---- Until somebody is killed.

/// What is left where a step has failed: all of the step before, or a session that is torn and says so to whoever goes
/// on.
std::string state_of(Accumulating& training) {
  try {
    (void)training.cycle(0);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::torn_session) return text_of("torn ", code_text(error.code()));
  }
  return hash_of(training);
}

int train_until(const std::shared_ptr<Communicator>& communicator, const std::string& folder, std::uint64_t updates) {
  constexpr std::uint64_t kUpdatesACheckpoint = 3;
  Accumulating training({.ranks = communicator->size()}, kAdam, options_of(communicator));
  Session& session = *training.session;
  Checkpoints checkpoints(folder);
  (void)checkpoints.restore_latest(session);
  communicator->barrier();
  say(*communicator, text_of("process ", getpid()));
  say(*communicator, text_of("update ", session.completed_cycles(), " ", hash_of(training)));
  try {
    while (session.completed_cycles() < updates) {
      const auto update = static_cast<std::int64_t>(session.completed_cycles());
      (void)training.cycle(update * communicator->size() + communicator->rank());
      const auto done = session.completed_cycles();
      say(*communicator, text_of("update ", done, " ", hash_of(training)));
      if (communicator->rank() == 0 && done % kUpdatesACheckpoint == 0) {
        checkpoints.save(session, {.step = static_cast<std::int64_t>(done)});
      }
    }
  } catch (const Error& error) {
    say(*communicator, text_of("left ", session.completed_cycles(), " ", state_of(training)));
    say(*communicator, text_of("ended by ", error.what()));
    return 2;
  }
  say(*communicator, "has all updates");
  return 0;
}

std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

int main(int argc, char** argv) {
  start_logging("training_ranks");
  const bool is_endless = argc == 4;
  CommunicatorOptions options;
  if (is_endless) options.deadline = std::chrono::milliseconds(number_of(argv[3]));
  std::shared_ptr<Communicator> communicator;
  try {
    communicator = mpi_communicator(options);
  } catch (const CommunicationError& error) {
    std::cout << "skipped: " << error.what() << "\n";
    return kSkipped;
  }
  try {
    if (is_endless) return train_until(communicator, argv[1], static_cast<std::uint64_t>(number_of(argv[2])));
    return compare_all(communicator);
  } catch (const std::exception& error) {
    communicator->fail(error.what());
    say(*communicator, text_of("ended by ", error.what()));
    return 3;
  }
}

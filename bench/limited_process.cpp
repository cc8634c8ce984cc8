// Trains one model twice, each in a process of its own: the whole graph with all the memory that it wants, and sections
// with tiers in a process whose address space is limited. Prints what each took, and whether every byte is the same.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "bench/zoo_arguments.h"
#include "examples/models/command_line.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  ZooArguments zoo;
  std::int64_t batch = 8000;
  std::int64_t steps = 2;
  std::string cut = "blocks";
  std::string address_space = "1536MiB";
  std::string device_memory = "640MiB", host_memory = "320MiB", disk = "6GiB", swap_directory;
  int threads = 0;
};

/// What a child tells its parent; plain bytes through a pipe.
struct Outcome {
  bool done = false;
  std::uint64_t state_hash = 0;  ///< of every variable after the last step, and of every loss
  std::size_t device_peak = 0, host_peak = 0, disk_peak = 0;
  std::size_t resident_peak = 0;  ///< of the process, in bytes
  double seconds_a_step = 0;
  char error[1024] = {};
};

/// Fowler, Noll and Vo's hash (FNV-1a, 64 bits).
std::uint64_t hash_bytes(std::uint64_t hash, const std::byte* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) hash = (hash ^ static_cast<std::uint64_t>(bytes[i])) * 0x100000001B3U;
  return hash;
}

Outcome train(const Arguments& arguments, bool limited) {
  Graph graph;
  GraphSectionManager manager(graph);
  const ZooModel zoo = model_of(arguments.zoo, limited ? cut_named(arguments.cut) : Cut{});
  const TrainableModel model = zoo.build(graph, manager);
  SessionOptions options{.threads = arguments.threads};
  if (limited) {
    options.device_memory = parse_bytes(arguments.device_memory);
    options.host_memory = parse_bytes(arguments.host_memory);
    options.disk = parse_bytes(arguments.disk);
    options.swap_directory = arguments.swap_directory;
  }
  Session session(graph, options);
  session.initialize();
  Outcome outcome{.state_hash = 0xCBF29CE484222325U};
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    const Batch batch = zoo.batch({.batch = arguments.batch, .seed = 0, .step = step});
    const Feeds feeds = model.feeds(batch);
    const HostTensor loss =
        limited ? std::move(manager.run_full_cycle(session, {model.loss}, feeds)[0])
                : std::move(session.run({model.loss}, feeds, {.targets = manager.training_operations()})[0]);
    outcome.state_hash = hash_bytes(outcome.state_hash, loss.bytes(), loss.num_bytes());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  outcome.seconds_a_step = took.count() / static_cast<double>(arguments.steps);
  const Statistics& statistics = session.statistics();
  outcome.device_peak = statistics.planned_peak_bytes;
  outcome.host_peak = statistics.planned_host_peak_bytes;
  outcome.disk_peak = statistics.planned_disk_peak_bytes;
  for (const auto& [name, tensor] : read_variables(session)) {
    outcome.state_hash = hash_bytes(outcome.state_hash, tensor.bytes(), tensor.num_bytes());
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  outcome.resident_peak = static_cast<std::size_t>(usage.ru_maxrss) * 1024;
  outcome.done = true;
  return outcome;
}

void limit_address_space(std::size_t bytes) {
  const rlimit limit{bytes, bytes};
  SF_CHECK(setrlimit(RLIMIT_AS, &limit) == 0, DeviceError, "the address space cannot be limited to ", bytes_text(bytes),
           ": ", std::strerror(errno));
}

/// In a process of its own, before any thread has started.
Outcome train_in_child(const Arguments& arguments, bool limited) {
  int ends[2];
  SF_CHECK(pipe(ends) == 0, DeviceError, "no pipe: ", std::strerror(errno));
  const pid_t child = fork();
  SF_CHECK(child >= 0, DeviceError, "no process: ", std::strerror(errno));
  if (child == 0) {
    Outcome outcome;
    try {
      if (limited) limit_address_space(parse_bytes(arguments.address_space));
      outcome = train(arguments, limited);
    } catch (const std::exception& error) {
      std::snprintf(outcome.error, sizeof(outcome.error), "%s", error.what());
    }
    const bool told = write(ends[1], &outcome, sizeof(outcome)) == static_cast<ssize_t>(sizeof(outcome));
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Outcome outcome;
  std::size_t got = 0;
  while (got < sizeof(outcome)) {
    const ssize_t count = read(ends[0], reinterpret_cast<char*>(&outcome) + got, sizeof(outcome) - got);
    if (count <= 0) break;
    got += static_cast<std::size_t>(count);
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (got < sizeof(outcome)) {
    outcome = {};
    std::snprintf(outcome.error, sizeof(outcome.error), "the process ended with status %d", status);
  }
  return outcome;
}

void print(const char* name, const Outcome& outcome) {
  if (!outcome.done) {
    std::cout << name << ": " << outcome.error << "\n";
    return;
  }
  std::printf("%-24s device %10s  host %10s  disk %10s  resident %10s  %7.2f s a step  state %016llx\n", name,
              bytes_text(outcome.device_peak).c_str(), bytes_text(outcome.host_peak).c_str(),
              bytes_text(outcome.disk_peak).c_str(), bytes_text(outcome.resident_peak).c_str(), outcome.seconds_a_step,
              static_cast<unsigned long long>(outcome.state_hash));
}

int run(const Arguments& arguments) {
  const Outcome whole = train_in_child(arguments, false);
  print("whole graph", whole);
  const Outcome limited = train_in_child(arguments, true);
  print(("within " + arguments.address_space).c_str(), limited);
  const bool identical = whole.done && limited.done && whole.state_hash == limited.state_hash;
  std::cout << "identical: " << (identical ? "yes" : "no") << "\n";
  return identical ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains in a process of limited address space, and compares with the whole graph, byte for byte.");
  Arguments arguments;
  add_zoo_arguments(app, arguments.zoo);
  app.add_option("--batch", arguments.batch, "examples in a batch")->capture_default_str();
  app.add_option("--steps", arguments.steps, "training steps")->capture_default_str();
  app.add_option("--cut", arguments.cut, "sections of the limited process: 1, 2, 4 or blocks")->capture_default_str();
  app.add_option("--address-space", arguments.address_space, "of the limited process, as in 1536MiB")
      ->check(size_argument())
      ->capture_default_str();
  app.add_option("--device-memory", arguments.device_memory, "its budget of device memory")
      ->check(size_argument())
      ->capture_default_str();
  app.add_option("--host-memory", arguments.host_memory, "its budget of host memory")
      ->check(size_argument())
      ->capture_default_str();
  app.add_option("--disk", arguments.disk, "the size of its swap file")->check(size_argument())->capture_default_str();
  app.add_option("--swap-directory", arguments.swap_directory, "where the swap file is; empty: the system's folder");
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  return sectionflow::run_program(app, argc, argv, [&] { return run(arguments); });
}

// One rank of several processes, started by mpirun from tests/comm/mpi.cpp: `comm_ranks MODE`. Each rank prints lines
// that begin with "rank 1: ", as one write, so that those of several do not mix.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "tests/comm/rank_threads.h"

namespace {

using namespace sectionflow;
using namespace std::chrono_literals;

void say(const Communicator& communicator, const std::string& text) {
  std::string line = text_of("rank ", communicator.rank(), ": ", text);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  line += '\n';
  (void)!write(STDOUT_FILENO, line.data(), line.size());
}

void sum(Communicator& communicator, std::int64_t elements) {
  std::vector<float> x(static_cast<std::size_t>(elements)), workspace(x.size() + 64);
  workspace.resize(Communicator::reduce_workspace(elements, communicator.size()) / sizeof(float) + 1);
  communicator.all_reduce_sum(x.data(), nullptr, x.data(), elements, workspace.data());
}

/// Sums of random sizes in place, every call once; the same again while a program of its own would be in MPI's world.
int check_calls(Communicator& communicator) {
  const int ranks = communicator.size();
  say(communicator, communicator.description());
  int exact = 0, trials = 0;
  SplitMix random(5);
  for (const std::int64_t most : {100, 5000, 5000, 100000, 1000000}) {
    const std::uint64_t seed = random.next() % 100000;
    const std::int64_t elements = most / 2 + random.below(static_cast<int>(most / 2));
    const std::vector<float> wanted = comm_tests::plain_sum(seed, ranks, elements, nullptr);
    std::vector<float> x = comm_tests::random_floats(seed, communicator.rank(), elements);
    std::vector<float> workspace(Communicator::reduce_workspace(elements, ranks) / sizeof(float));
    communicator.all_reduce_sum(x.data(), nullptr, x.data(), elements, workspace.data());
    exact += comm_tests::same_bytes(x, wanted) ? 1 : 0;
    ++trials;
    // Who gives all of them gets the sum once more.
    std::vector<float> gathered(x.size() * static_cast<std::size_t>(ranks));
    communicator.all_gather(std::as_bytes(std::span(x)), std::as_writable_bytes(std::span(gathered)));
    for (int rank = 0; rank < ranks; ++rank) {
      const auto begin = gathered.begin() + static_cast<std::ptrdiff_t>(x.size()) * rank;
      exact += std::equal(wanted.begin(), wanted.end(), begin) ? 1 : 0;
      ++trials;
    }
    std::vector<float> sent = communicator.rank() == ranks - 1 ? wanted : std::vector<float>(wanted.size());
    communicator.broadcast(std::as_writable_bytes(std::span(sent)), ranks - 1);
    exact += comm_tests::same_bytes(sent, wanted) ? 1 : 0;
    ++trials;
  }
  communicator.expect_same("the plan", "the same");
  communicator.barrier();
  say(communicator, text_of(exact, " of ", trials, " exact"));
  return exact == trials ? 0 : 1;
}

int make_other_calls(Communicator& communicator) {
  communicator.barrier();
  if (communicator.rank() == 1) {
    communicator.barrier();
  } else {
    sum(communicator, 1000);
  }
  return 0;
}

int hang(Communicator& communicator) {
  communicator.barrier();
  while (communicator.rank() == 1) pause();
  sum(communicator, 1000);
  return 0;
}

int hang_amid_bytes(Communicator& communicator) {
  communicator.barrier();
  if (communicator.rank() == 1) {
    std::thread([] {
      std::this_thread::sleep_for(100ms);
      raise(SIGSTOP);
    }).detach();
  }
  while (true) sum(communicator, 3'000'000);
}

/// Killed in the middle of a sum that takes seconds over its link.
int die(Communicator& communicator) {
  communicator.barrier();
  std::thread([dies = communicator.rank() == 1] {
    std::this_thread::sleep_for(100ms);
    if (dies) raise(SIGKILL);
  }).detach();
  sum(communicator, 20'000'000);
  say(communicator, "the sum is there");
  return 0;
}

int fail(Communicator& communicator) {
  communicator.barrier();
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    if (communicator.rank() == 1) communicator.fail("the disk is full");
  });
  try {
    while (true) sum(communicator, 300'000);
  } catch (...) {
    other.join();
    throw;
  }
}

int leave(Communicator& communicator) {
  communicator.barrier();
  if (communicator.rank() == 1) return 0;
  communicator.barrier();
  return 0;
}

int differ(Communicator& communicator) {
  communicator.expect_same("the plan", communicator.rank() == 1 ? "a\nb" : "a\nc");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, int (*)(Communicator&)> modes = {
      {"calls", check_calls}, {"other_calls", make_other_calls},
      {"hang", hang},         {"hang_amid_bytes", hang_amid_bytes},
      {"die", die},           {"fail", fail},
      {"leave", leave},       {"differ", differ}};
  const std::string mode = argc > 1 ? argv[1] : "";
  std::shared_ptr<Communicator> communicator;
  try {
    CommunicatorOptions options;
    if (mode.starts_with("hang")) options.deadline = 1s;
    if (mode == "die") options.link_bytes_per_second = 1e6;
    communicator = mpi_communicator(options);
    return modes.at(mode)(*communicator);
  } catch (const Error& error) {
    if (communicator == nullptr) {
      std::printf("%s\n", error.what());
      return 3;
    }
    say(*communicator, error.what());
    return 2;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 4;
  }
}

#include "bench/rank_arguments.h"

#include <charconv>

#include "base/error.h"
#include "bench/rates.h"
#include "examples/models/command_line.h"

namespace sectionflow {
namespace {

constexpr const char* kByMpi = "mpi";
constexpr int kMostThreads = 64;

CLI::Validator ranks_argument() {
  const auto number = number_argument(1, kMostThreads);
  const auto check = [number](std::string& text) -> std::string {
    if (text == kByMpi || number(text).empty()) return {};
    return "'" + text + "'; wanted mpi, or threads of this process, 1 to " + std::to_string(kMostThreads);
  };
  return CLI::Validator(check, "N or mpi");
}

}  // namespace

void add_rank_arguments(CLI::App& app, RankArguments& arguments) {
  app.add_option("--ranks", arguments.ranks,
                 "so many ranks train together, as threads of this process, each with --threads of its own; mpi: those "
                 "that mpirun has started")
      ->check(ranks_argument());
  app.add_option("--rank-link", arguments.link,
                 "of ranks: holds what each sends to the others down to so much a second, as in 125MB/s")
      ->check(rate_argument());
  app.add_option("--rank-latency-us", arguments.latency_us, "of ranks: what each message takes longer, in microseconds")
      ->check(number_argument<std::int64_t>(0, 10'000'000))
      ->capture_default_str();
  app.add_option("--rank-deadline", arguments.deadline_s, "of ranks: seconds that one waits for another")
      ->check(number_argument<std::int64_t>(1, 86'400))
      ->capture_default_str();
}

std::vector<std::shared_ptr<Communicator>> communicators_of(const RankArguments& arguments) {
  SF_CHECK(!arguments.ranks.empty() || (arguments.link.empty() && arguments.latency_us == 0), ArgumentError,
           arguments.link.empty() ? "--rank-latency-us" : "--rank-link", " is of ranks, and there are none",
           hint("add --ranks"));
  if (arguments.ranks.empty()) return {};
  const double rate = arguments.link.empty() ? 0 : rate_named("--rank-link", arguments.link);
  const CommunicatorOptions options{.deadline = std::chrono::seconds(arguments.deadline_s),
                                    .link_bytes_per_second = rate,
                                    .link_latency = std::chrono::microseconds(arguments.latency_us)};
  if (arguments.ranks == kByMpi) return {mpi_communicator(options)};
  int ranks = 0;
  std::from_chars(arguments.ranks.data(), arguments.ranks.data() + arguments.ranks.size(), ranks);
  return in_process_communicators(ranks, options);
}

}  // namespace sectionflow

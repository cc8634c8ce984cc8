// How long saving a checkpoint takes, and how much of it a training waits for, when a thread writes it and when none
// does.

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/median.h"
#include "bench/program.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  std::string bytes = "1GiB", folder = "bench_checkpoint.tmp";
  int tensors = 64, saves = 5, threads = 0;
};

/// A graph of variables of so many bytes in all, and nothing else.
void add_variables(Graph& graph, std::size_t bytes, int tensors) {
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float) / static_cast<std::size_t>(tensors));
  for (int i = 0; i < tensors; ++i) (void)variable("w" + std::to_string(i), fill(graph, {elements}, i));
}

void measure(Session& session, const Arguments& arguments, bool asynchronous) {
  const std::string folder = arguments.folder + (asynchronous ? "/asynchronous" : "/synchronous");
  Checkpoints checkpoints(folder, {.keep = 1, .asynchronous = asynchronous});
  std::vector<double> blocked, total;
  for (int i = 0; i < arguments.saves; ++i) {
    const bool went_well = checkpoints.save(session, {.step = i}) && checkpoints.wait();
    SF_CHECK(went_well, DataError, checkpoints.statistics().last_failure);
    // The first one finds cold pages.
    if (i == 0 && arguments.saves > 1) continue;
    blocked.push_back(checkpoints.statistics().blocked_seconds);
    total.push_back(checkpoints.statistics().total_seconds);
  }
  const double gigabytes = static_cast<double>(checkpoints.statistics().num_bytes) / 1e9;
  std::printf("%-13s %8.1f ms %8.1f ms %7.1f %% %7.2f GB/s\n", asynchronous ? "asynchronous" : "synchronous",
              1e3 * median(blocked), 1e3 * median(total), 100 * median(blocked) / median(total),
              gigabytes / median(total));
}

int run(const Arguments& arguments) {
  const std::size_t bytes = parse_bytes(arguments.bytes);
  Graph graph;
  add_variables(graph, bytes, arguments.tensors);
  Session session(graph, {.device_memory = 2 * bytes, .threads = arguments.threads});
  session.initialize();
  std::printf("%s in %d variables, %s, the median of %d saves\n", bytes_text(bytes).c_str(), arguments.tensors,
              session.device_name().c_str(), arguments.saves > 1 ? arguments.saves - 1 : 1);
  std::printf("%-13s %11s %11s %9s\n", "save", "blocked", "total", "blocked");
  for (const bool asynchronous : {false, true}) measure(session, arguments, asynchronous);
  std::filesystem::remove_all(arguments.folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Saves checkpoints, and tells how long a training waits for them.");
  Arguments arguments;
  app.add_option("--bytes", arguments.bytes, "of all variables")->capture_default_str();
  app.add_option("--tensors", arguments.tensors, "variables")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--saves", arguments.saves, "saves of each kind, the first of which is not counted")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--folder", arguments.folder, "where; it is removed at the end")->capture_default_str();
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  return run_program(app, argc, argv, [&] { return run(arguments); });
}

// Runs random programs: models, additions to their training, and calls in odd orders, each beside a plain session of
// the whole graph, for as many seeds as asked for. docs/exactness.md tells how to read a failure.

#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/log.h"
#include "examples/models/command_line.h"
#include "tests/fuzz/progress_log.h"
#include "tests/support/shrink_program.h"
#include "tests/support/watchdog.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::testing;

struct Arguments {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 1;
  int failures = 1;
  int tries = 300;
  unsigned seconds = 120;
  bool list = false;
  bool counts = false;
  std::string spec{};
  std::vector<std::string> without{};
};

void watch(const ProgramSpec& spec) {
  Watchdog::watch("seed " + std::to_string(spec.model.seed) + "; to run it: random_programs --spec '" +
                  text_of_spec(spec) + "'");
}

void take_out(const std::vector<std::string>& kinds, ProgramSpec& spec) {
  std::erase_if(spec.calls, [&](const CallSpec& call) {
    return std::find(kinds.begin(), kinds.end(), name_of(call.kind)) != kinds.end();
  });
}

void print(const CallCounts& counts) {
  for (int kind = 0; kind < kNumCallKinds; ++kind) {
    const auto i = static_cast<std::size_t>(kind);
    std::cout << name_of(static_cast<CallKind>(kind)) << ": " << counts.done[i] << " done, " << counts.refused[i]
              << " refused, " << counts.skipped[i] << " skipped\n";
  }
}

/// True: it failed.
bool failed(const ProgramSpec& spec, const Arguments& arguments, CallCounts& counts) {
  if (arguments.list) std::cout << listing(spec) << std::flush;
  const auto report = examine(spec, {.counts = &counts}, arguments.tries, watch);
  Watchdog::idle();
  if (report) std::cout << report->text() << std::flush;
  return report.has_value();
}

int run(const Arguments& arguments) {
  Watchdog watchdog(arguments.seconds);
  CallCounts counts;
  int failures = 0;
  if (!arguments.spec.empty()) {
    failures = failed(spec_of_text(arguments.spec), arguments, counts) ? 1 : 0;
    if (arguments.counts) print(counts);
    return failures;
  }
  ProgressLog progress(arguments.seeds);
  for (std::uint64_t seed = arguments.first; seed < arguments.first + arguments.seeds; ++seed) {
    ProgramSpec spec = random_program(seed);
    take_out(arguments.without, spec);
    if (failed(spec, arguments, counts) && ++failures == arguments.failures) break;
    progress.seed_done(failures);
  }
  if (arguments.counts) print(counts);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  sectionflow::start_logging(argv[0]);
  // What plans and Lms log is no matter here.
  FLAGS_minloglevel = google::GLOG_ERROR;
  CLI::App app("Random programs, each beside a plain session of the whole graph: all bytes must be the same.");
  Arguments arguments;
  app.add_option("--seeds", arguments.seeds, "how many seeds")->capture_default_str();
  app.add_option("--first", arguments.first, "the first of them")->capture_default_str();
  app.add_option("--failures", arguments.failures, "stop after so many failures; 0: never")->capture_default_str();
  app.add_option("--tries", arguments.tries, "programs to try while a failing one is shrunk")->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "a program that takes longer hangs")->capture_default_str();
  app.add_option("--spec", arguments.spec, "this program instead, as a failure prints it");
  app.add_option("--without", arguments.without, "leave calls of these kinds out")->delimiter(',');
  app.add_flag("--list", arguments.list, "print each program before it is run");
  app.add_flag("--counts", arguments.counts, "print how often each kind of call was made");
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  return run(arguments);
}

// Trains random models with random cuts by every strategy and compares all bytes, for as many seeds as asked for.

#include <glog/logging.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/log.h"
#include "examples/models/command_line.h"
#include "tests/fuzz/progress_log.h"
#include "tests/support/shrink_spec.h"

namespace {

using namespace sectionflow;
using namespace sectionflow::testing;

struct Arguments {
  std::uint64_t seeds = 1000;
  std::uint64_t first = 1;
  int failures = 1;
  bool list = false;
};

int run(const Arguments& arguments) {
  int failures = 0;
  ProgressLog progress(arguments.seeds);
  for (std::uint64_t seed = arguments.first; seed < arguments.first + arguments.seeds; ++seed) {
    const TrainingSpec spec = random_spec(seed);
    if (arguments.list) std::cout << listing(spec);
    const auto report = examine(spec);
    if (report) {
      std::cout << report->text() << std::flush;
      if (++failures == arguments.failures) break;
    }
    progress.seed_done(failures);
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  sectionflow::start_logging(argv[0]);
  CLI::App app("Random models with random cuts: training by sections must give the bytes of the whole graph.");
  Arguments arguments;
  app.add_option("--seeds", arguments.seeds, "how many seeds")->capture_default_str();
  app.add_option("--first", arguments.first, "the first of them")->capture_default_str();
  app.add_option("--failures", arguments.failures, "stop after so many failures; 0: never")->capture_default_str();
  app.add_flag("--list", arguments.list, "print each model before it is trained");
  if (const auto status = read_arguments(app, argc, argv)) return *status;
  return run(arguments);
}

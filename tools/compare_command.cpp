#include "bench/compare_command.h"

#include <memory>

#include "tools/command.h"

namespace sectionflow {

void add_compare_command(CLI::App& program, RunCommand& run) {
  CLI::App* const app = program.add_subcommand(
      "compare", "Trains one model by several strategies, and compares memory, time and every byte of the result.");
  const auto arguments = std::make_shared<CompareArguments>();
  add_compare_arguments(*app, *arguments);
  app->callback([arguments, &run] {
    run = [arguments] {
      check_known(arguments->zoo.model, zoo_names(), "--model: '" + arguments->zoo.model + "' is no model");
      return run_compare(*arguments);
    };
  });
}

}  // namespace sectionflow

// Trains one model by several strategies in one process, step by step in turn, and compares memory, time and every byte
// of the result. docs/comparing.md shows how; `sectionflow compare` is the same for users.

#include <CLI/CLI.hpp>

#include "bench/compare_command.h"

int main(int argc, char** argv) {
  CLI::App app("Compares strategies of training one model: memory, time, and every byte of the result.");
  sectionflow::CompareArguments arguments;
  sectionflow::add_compare_arguments(app, arguments);
  return sectionflow::run_program(app, argc, argv, [&] { return sectionflow::run_compare(arguments); });
}

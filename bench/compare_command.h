#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/session_arguments.h"
#include "bench/zoo_arguments.h"

namespace sectionflow {

/// What a comparison of strategies is told on the command line.
struct CompareArguments {
  ZooArguments zoo;
  std::int64_t batch = kUsualBatch;
  std::vector<std::string> strategies;  ///< none: whole, and those of sections:2, :4, :blocks that the model can have
  std::int64_t steps = 20;
  SessionArguments session{};
  std::string profile, plan;
  std::uint64_t seed = 0;
  std::string json, report;
  bool max_batch = false, max_side = false;
  bool sizes_by_plan = false;  ///< of both: no step of the sizes found is trained
  int frontier = 0;            ///< budgets; 0: none
};

void add_compare_arguments(CLI::App& app, CompareArguments& arguments);

/// Trains one model by several strategies in one process, step by step in turn, and compares memory, time and every
/// byte of the result (docs/comparing.md). The exit status: 0 where all that fit have the same bits, 1 where not.
/// Throws: Error, for what would only show after training before it.
int run_compare(const CompareArguments& arguments);

}  // namespace sectionflow

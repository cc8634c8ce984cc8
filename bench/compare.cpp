// Trains one model by several strategies in one process, step by step in turn, and compares memory, time and every byte
// of the result.

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>

#include "bench/zoo_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

struct Arguments {
  ZooArguments zoo;
  std::int64_t batch = 250;
  std::vector<std::string> strategies = {"whole", "sections:2", "sections:4", "sections:blocks"};
  std::int64_t steps = 20;
  std::string device_memory;
  int threads = 0;
  std::uint64_t seed = 0;
  std::string json;
};

/// "whole" or "sections:<cut>".
Strategy strategy_named(const std::string& name, const ZooArguments& zoo) {
  const std::string prefix = "sections:";
  const bool whole = name == "whole";
  SF_CHECK(whole || name.starts_with(prefix), ArgumentError, "'", name,
           "' is no strategy; wanted whole, sections:1, sections:2, sections:4 or sections:blocks");
  const Cut cut = whole ? Cut{} : cut_named(name.substr(prefix.size()));
  return {.name = name, .whole_graph = whole, .build = model_of(zoo, cut).build};
}

int run(const Arguments& arguments) {
  SF_CHECK(arguments.batch >= 1, ArgumentError, "--batch ", arguments.batch, "; wanted >= 1");
  std::vector<Strategy> strategies;
  for (const std::string& name : arguments.strategies) strategies.push_back(strategy_named(name, arguments.zoo));

  const ZooModel model = model_of(arguments.zoo, {});
  CompareOptions options{.model = arguments.zoo.model, .steps = arguments.steps};
  options.session = {.device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
                     .threads = arguments.threads,
                     .seed = arguments.seed};
  // Eight different batches, gone round.
  options.batch = [&](std::int64_t step) {
    return model.batch({.batch = arguments.batch, .seed = arguments.seed, .step = step % 8});
  };
  options.on_round = [&](std::int64_t done) {
    if (done % 5 == 0 || done == arguments.steps) std::cerr << "step " << done << "/" << arguments.steps << "\n";
  };
  const Comparison comparison = compare_strategies(strategies, options);
  std::cout << "model " << comparison.model << ", batch " << comparison.batch << ", " << comparison.threads
            << " threads, " << arguments.steps << " steps\n"
            << comparison.text();
  if (!arguments.json.empty()) {
    std::ofstream file(arguments.json);
    file << comparison.json();
    file.close();
    SF_CHECK(!file.fail(), DataError, "--json '", arguments.json, "' cannot be written");
  }
  const bool all_identical = std::all_of(comparison.strategies.begin(), comparison.strategies.end(),
                                         [](const StrategyResult& r) { return r.identical || !r.fits; });
  return all_identical ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  start_logging(argv[0]);
  CLI::App app("Compares strategies of training one model: memory, time, and every byte of the result.");
  Arguments arguments;
  add_zoo_arguments(app, arguments.zoo);
  app.add_option("--batch", arguments.batch, "examples in a batch")->capture_default_str();
  app.add_option("--strategies", arguments.strategies, "whole, sections:1|2|4|blocks, separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--steps", arguments.steps, "training steps of each strategy")->capture_default_str();
  app.add_option("--device-memory", arguments.device_memory,
                 "budget of each, as in 512MiB; all of the device if absent");
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--seed", arguments.seed, "seed of data and initial values")->capture_default_str();
  app.add_option("--json", arguments.json, "write the results to this file too");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(arguments);
  } catch (const sectionflow::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}

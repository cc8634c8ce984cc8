// Trains one model of the zoo, step by step, either alone or on the word of a program that lets several take turns;
// also by several ranks, as threads (--ranks 2) or as processes (mpirun -n 2 bench_train_steps --ranks mpi --steps 5).
// In the second case each line of input is a command, and each is answered by one line of JSON:
//
//   step           {"ms": ..., "loss": ...}: one training step on the next batch; of ranks, what rank 0 has of it
//   trace          the same, and where the time of this step went, by operation
//   timeline FILE  the same, with its timeline in the file, for chrome://tracing and Perfetto
//   peak           {"planned_peak_bytes": ..., ...}
//   measure        {"planned_peak_bytes": ..., "measured_peak_bytes": ...}, by one step more
//   export FILE    every variable, as safetensors
//   batch FILE     the batches, as safetensors: images/0, labels/0, images/1, ...; of rank 1 in FILE.1, and so on
//   profile FILE   how long each kernel takes, as `sectionflow scale --profile` reads it
//   choices FILE   the algorithms of libraries that run, as JSON (device/algorithm_choices.h)
//   quit

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <map>

#include "base/text_table.h"
#include "bench/median.h"
#include "bench/rank_team.h"
#include "examples/models/command_line.h"

namespace {

using namespace sectionflow;
using Json = StepTraining::Json;

struct Arguments {
  StepArguments training;
  RankArguments ranks;
  std::int64_t steps = 0;
  std::string choices, timeline, json;
};

/// The answer to one line of input. Throws: Error for what is no command, and what the command throws.
Json answer_to(const std::string& line, RankTeam& team) {
  const auto space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string file = space == std::string::npos ? "" : line.substr(space + 1);
  constexpr std::array kWithFile = {"export", "batch", "choices", "timeline", "profile"};
  const bool wants_file = std::find(kWithFile.begin(), kWithFile.end(), command) != kWithFile.end();
  SF_CHECK(wants_file == !file.empty(), ArgumentError, "'", line, "': ", wants_file ? "wanted a file" : "no command");
  StepTraining& training = team.first();
  const auto by_all = [&](const auto& work) { return team.each(work).front(); };
  if (command == "step") return by_all([](StepTraining& each) { return each.step(); });
  if (command == "trace") return by_all([](StepTraining& each) { return each.traced_step(); });
  if (command == "measure") return by_all([](StepTraining& each) { return each.measured_peak(); });
  if (command == "peak") return training.peak();
  if (command == "export") return training.save_variables_to(file);
  if (command == "batch") return by_all([&](StepTraining& each) { return each.save_batches_to(file); });
  if (command == "profile") return training.save_profile_to(file);
  if (command == "choices") return training.save_choices_to(file);
  if (command == "timeline") {
    return by_all([&](StepTraining& each) { return each.traced_step(&each == &training ? file : ""); });
  }
  throw ArgumentError(text_of(
      "'", line,
      "' is no command; wanted step, trace, peak, measure, export FILE, batch FILE, profile FILE, choices FILE, ",
      "timeline FILE or quit"));
}

int serve(RankTeam& team, const Arguments& arguments) {
  std::cout << Json{{"ready", true},
                    {"model", arguments.training.zoo.model},
                    {"threads", team.first().threads()},
                    {"device", team.first().device_name()},
                    {"ranks", team.communicator() != nullptr ? team.communicator()->size() : 1}}
            << std::endl;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    Json answer;
    try {
      answer = answer_to(line, team);
    } catch (const Error& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer << std::endl;
  }
  return 0;
}

/// The operations by falling time; what is below a thousandth of the step is left out.
void print_operations(const std::map<std::string, std::vector<double>>& by_operation, double step_ms) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [operation, samples] : by_operation) sorted.emplace_back(median(samples), operation);
  std::sort(sorted.rbegin(), sorted.rend());
  for (const auto& [ms, operation] : sorted) {
    if (ms >= step_ms / 1000) std::printf("  %-30s %9.2f ms  %4.1f %%\n", operation.c_str(), ms, 100 * ms / step_ms);
  }
}

int measure(StepTraining& training, const Arguments& arguments) {
  // The first step compiles the program and touches the memory for the first time.
  double loss = training.step()["loss"].get<double>();
  if (!arguments.choices.empty()) (void)training.save_choices_to(arguments.choices);
  std::vector<double> step_ms, outside_ms;
  std::map<std::string, std::vector<double>> by_operation;
  for (std::int64_t step = 0; step < arguments.steps; ++step) {
    const Json answer = training.step();
    step_ms.push_back(answer["ms"].get<double>());
    loss = answer["loss"].get<double>();
    const Json traced = training.traced_step();
    outside_ms.push_back(traced["outside_kernels_ms"].get<double>());
    for (const auto& [operation, ms] : traced["ms_by_operation"].items()) {
      by_operation[operation].push_back(ms.get<double>());
    }
  }
  if (!arguments.timeline.empty()) (void)training.traced_step(arguments.timeline);
  const Json peak = training.peak();
  std::cout << arguments.training.zoo.model << ", batch " << arguments.training.batch << ", cut "
            << arguments.training.cut << ", " << training.device_name() << "\n"
            << "parameters           " << peak["parameters"] << "\n"
            << "planned peak         " << bytes_text(peak["planned_peak_bytes"].get<std::size_t>()) << "\n"
            << "compiled in          " << peak["compile_ms"].get<double>() << " ms\n"
            << "step                 " << median(step_ms) << " ms (median of " << arguments.steps << ")\n"
            << "outside of kernels   " << median(outside_ms) << " ms\n"
            << "last loss            " << loss << "\n";
  print_operations(by_operation, median(step_ms));
  return 0;
}

std::string ms_text(const Json& number) {
  return decimal_text(number.get<double>(), 1);
}

/// What each rank comes to; told by rank 0.
int measure_ranks(RankTeam& team, const Arguments& arguments) {
  const std::vector<Json> rows = team.each_of_all([&](StepTraining& each) { return each.measured(arguments.steps); });
  Communicator& communicator = *team.communicator();
  if (communicator.rank() != 0) return 0;
  TextTable table({"rank", "step ms", "kernels ms", "communicating ms", "exposed ms", "hidden", "planned peak",
                   "measured peak", "last loss"});
  for (const Json& row : rows) {
    table.add_row({std::to_string(row["rank"].get<int>()), ms_text(row["step_ms"]), ms_text(row["kernel_ms"]),
                   ms_text(row["communicate_ms"]), ms_text(row["exposed_ms"]),
                   decimal_text(100 * row["hidden_share"].get<double>(), 0) + " %",
                   bytes_text(row["planned_peak_bytes"].get<std::size_t>()),
                   bytes_text(row["measured_peak_bytes"].get<std::size_t>()),
                   decimal_text(row["loss"].get<double>(), 4)});
  }
  const StepArguments& training = arguments.training;
  const std::string link = arguments.ranks.link.empty() ? "" : ", links of " + arguments.ranks.link;
  if (!is_standard_output(arguments.json)) {
    std::cout << training.zoo.model << ", batch " << training.batch << " a rank, cut " << training.cut << ", "
              << communicator.description() << " of " << team.first().threads() << " threads each" << link << "\n"
              << table.text() << "in common in a step  "
              << bytes_text(rows.front()["bytes_communicated"].get<std::size_t>()) << "\n";
  }
  const Json report = {{"model", training.zoo.model},
                       {"batch", training.batch},
                       {"cut", training.cut},
                       {"ranks", communicator.description()},
                       {"link", arguments.ranks.link},
                       {"latency_us", arguments.ranks.latency_us},
                       {"threads", team.first().threads()},
                       {"device", team.first().device_name()},
                       {"rounds", arguments.steps},
                       {"by_rank", rows}};
  write_json(arguments.json, report.dump(1));
  return 0;
}

/// What an option asks for that goes with other options alone.
void check(const Arguments& arguments) {
  const bool has_ranks = !arguments.ranks.ranks.empty(), measures = arguments.steps > 0;
  SF_CHECK(measures || (arguments.choices.empty() && arguments.timeline.empty()), ArgumentError,
           "--choices and --timeline belong to --steps; without it say 'choices FILE' or 'timeline FILE' as a command");
  SF_CHECK(!has_ranks || (arguments.choices.empty() && arguments.timeline.empty()), ArgumentError,
           "--choices and --timeline are of a training alone", hint("leave out --ranks"));
  SF_CHECK(arguments.json.empty() || (has_ranks && measures), ArgumentError, "--json is what ranks are measured to",
           hint("add --ranks and --steps"));
  SF_CHECK(arguments.ranks.ranks != "mpi" || measures, ArgumentError,
           "--ranks mpi takes no commands: they would come to one rank", hint("add --steps"));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains one model step by step: alone (--steps), or on commands from standard input.");
  Arguments arguments;
  StepArguments& training = arguments.training;
  add_zoo_arguments(app, training.zoo);
  app.add_option("--batch", training.batch, "examples in a batch")->capture_default_str();
  app.add_option("--batches", training.batches, "different batches, gone round")->capture_default_str();
  app.add_option("--cut", training.cut, "whole, a number of sections, or blocks")->capture_default_str();
  app.add_option("--steps", arguments.steps, "train this many steps and print medians; 0: take commands")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--choices", arguments.choices,
                 "with --steps: write the algorithms of libraries that ran to this file");
  app.add_option("--timeline", arguments.timeline,
                 "with --steps: write one more step's timeline to this file, for Perfetto");
  add_device_arguments(app, training.device);
  app.add_option("--device-memory", training.device_memory, "budget, as in 512MiB; all of the device if absent")
      ->check(size_argument());
  app.add_option("--threads", training.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--seed", training.seed, "of data and initial values")->capture_default_str();
  add_rank_arguments(app, arguments.ranks);
  add_json_argument(app, arguments.json);
  return sectionflow::run_program(app, argc, argv, [&] {
    check(arguments);
    check_json(arguments.json);
    RankTeam team(training, arguments.ranks);
    if (arguments.steps == 0) return serve(team, arguments);
    return team.communicator() != nullptr ? measure_ranks(team, arguments) : measure(team.first(), arguments);
  });
}

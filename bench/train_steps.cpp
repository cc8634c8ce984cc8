// Trains one model of the zoo, step by step, either alone or on the word of a program that lets several take turns.
// In the second case each line of input is a command, and each is answered by one line of JSON:
//
//   step           {"ms": ..., "loss": ...}      one training step on the next batch
//   trace          the same, and where the time of this step went, by operation
//   peak           {"planned_peak_bytes": ..., ...}
//   export FILE    {"file": ...}                 every variable, as safetensors
//   batch FILE     {"file": ...}                 the batches, as safetensors: images/0, labels/0, images/1, ...
//   choices FILE   {"file": ...}                 the algorithms of libraries that run, as JSON
//   (device/algorithm_choices.h) timeline FILE  the same as trace, with its timeline in the file, for chrome://tracing
//   and Perfetto quit

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/median.h"
#include "bench/zoo_arguments.h"
#include "data/safetensors.h"
#include "examples/models/command_line.h"
#include "graph/op_def.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;
using Json = nlohmann::ordered_json;

struct Arguments {
  ZooArguments zoo;
  std::int64_t batch = 250;
  std::int64_t batches = 1;
  std::string cut = "whole";
  std::int64_t steps = 0;
  std::string choices, timeline;
  DeviceArguments device{};
  std::string device_memory;
  int threads = 0;
  std::uint64_t seed = 0;
};

/// One model in training, with the batches that it goes round.
class Training {
 public:
  explicit Training(const Arguments& arguments)
      : whole_graph_(arguments.cut == "whole"),
        manager_(graph_),
        session_(graph_, {.device = device_of(arguments.device),
                          .device_memory = arguments.device_memory.empty() ? 0 : parse_bytes(arguments.device_memory),
                          .threads = arguments.threads,
                          .seed = arguments.seed}) {
    const ZooModel model = model_of(arguments.zoo, whole_graph_ ? Cut{} : cut_named(arguments.cut));
    SF_CHECK(arguments.batches >= 1, ArgumentError, "--batches ", arguments.batches, "; wanted >= 1");
    for (std::int64_t i = 0; i < arguments.batches; ++i) {
      batches_.push_back(model.batch({.batch = arguments.batch, .seed = arguments.seed, .step = i}));
    }
    model_ = model.build(graph_, manager_);
    const FeedTypes types = types_of(model_.feeds(batches_.front()));
    const auto start = std::chrono::steady_clock::now();
    plan_ = whole_graph_ ? session_.plan({model_.loss}, types, {.targets = manager_.training_operations()})
                         : manager_.plan(session_, {model_.loss}, types);
    compile_ms_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    session_.initialize();
  }

  Json step() {
    const Batch& batch = batches_[num_steps_++ % batches_.size()];
    const auto start = std::chrono::steady_clock::now();
    const float loss = train_on(batch);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return {{"ms", took.count()}, {"loss", loss}};
  }

  /// A step with the time in kernels and the time between them.
  Json traced_step(const std::string& file = "") {
    Trace trace;
    session_.set_trace(&trace);
    Json answer = step();
    session_.set_trace(nullptr);
    if (!file.empty()) trace.write(file, graph_);
    double kernel_ms = 0;
    std::map<std::string, double> by_operation;
    for (const Trace::Event& event : trace.events()) {
      kernel_ms += event.duration_us / 1000;
      by_operation[graph_.node(event.node).op().name] += event.duration_us / 1000;
    }
    answer["kernel_ms"] = kernel_ms;
    answer["ms_by_operation"] = by_operation;
    answer["outside_kernels_ms"] = answer["ms"].get<double>() - kernel_ms;
    answer["executed_steps"] = trace.events().size();
    return answer;
  }

  Json peak() const {
    return {{"planned_peak_bytes", plan_.planned_peak_bytes},
            {"persistent_bytes", plan_.persistent_bytes},
            {"lower_bound_bytes", plan_.lower_bound_bytes},
            {"parameters", num_parameters(graph_)},
            {"recomputed_operations", plan_.recomputed_operations},
            {"sections", manager_.sections().size()},
            {"compile_ms", compile_ms_}};
  }

  Json save_variables_to(const std::string& path) {
    save_variables(session_, path);
    return {{"file", path}};
  }

  Json save_choices_to(const std::string& path) const {
    session_.algorithm_choices().save(path);
    return {{"file", path}, {"problems", session_.algorithm_choices().algorithms.size()}};
  }

  Json save_batches_to(const std::string& path) const {
    std::vector<NamedView> views;
    for (std::size_t i = 0; i < batches_.size(); ++i) {
      views.push_back({text_of("images/", i), batches_[i].images.view()});
      views.push_back({text_of("labels/", i), batches_[i].labels.view()});
    }
    write_safetensors(path, views);
    return {{"file", path}};
  }

  int threads() const { return session_.threads(); }
  std::string device_name() const { return session_.device_name(); }

 private:
  float train_on(const Batch& batch) {
    const Feeds feeds = model_.feeds(batch);
    if (whole_graph_) {
      auto [loss] = session_.run({model_.loss}, feeds, {.targets = manager_.training_operations()});
      return loss.item<float>();
    }
    auto [loss] = manager_.run_full_cycle(session_, {model_.loss}, feeds);
    return loss.item<float>();
  }

  bool whole_graph_;
  Graph graph_;
  GraphSectionManager manager_;
  Session session_;
  TrainableModel model_;
  std::vector<Batch> batches_;
  ProgramReport plan_;
  double compile_ms_ = 0;
  std::size_t num_steps_ = 0;
};

/// The answer to one line of input. Throws: Error for what is no command, and what the command throws.
Json answer_to(const std::string& line, Training& training) {
  const auto space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string file = space == std::string::npos ? "" : line.substr(space + 1);
  constexpr std::array kWithFile = {"export", "batch", "choices", "timeline"};
  const bool wants_file = std::find(kWithFile.begin(), kWithFile.end(), command) != kWithFile.end();
  SF_CHECK(wants_file == !file.empty(), ArgumentError, "'", line, "': ", wants_file ? "wanted a file" : "no command");
  if (command == "step") return training.step();
  if (command == "trace") return training.traced_step();
  if (command == "peak") return training.peak();
  if (command == "export") return training.save_variables_to(file);
  if (command == "batch") return training.save_batches_to(file);
  if (command == "choices") return training.save_choices_to(file);
  if (command == "timeline") return training.traced_step(file);
  throw ArgumentError(text_of("'", line,
                              "' is no command; wanted step, trace, peak, export FILE, batch FILE, choices FILE, ",
                              "timeline FILE or quit"));
}

int serve(Training& training, const Arguments& arguments) {
  std::cout << Json{{"ready", true},
                    {"model", arguments.zoo.model},
                    {"threads", training.threads()},
                    {"device", training.device_name()}}
            << std::endl;
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    Json answer;
    try {
      answer = answer_to(line, training);
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

int measure(Training& training, const Arguments& arguments) {
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
  std::cout << arguments.zoo.model << ", batch " << arguments.batch << ", cut " << arguments.cut << ", "
            << training.device_name() << "\n"
            << "parameters           " << peak["parameters"] << "\n"
            << "planned peak         " << bytes_text(peak["planned_peak_bytes"].get<std::size_t>()) << "\n"
            << "compiled in          " << peak["compile_ms"].get<double>() << " ms\n"
            << "step                 " << median(step_ms) << " ms (median of " << arguments.steps << ")\n"
            << "outside of kernels   " << median(outside_ms) << " ms\n"
            << "last loss            " << loss << "\n";
  print_operations(by_operation, median(step_ms));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Trains one model step by step: alone (--steps), or on commands from standard input.");
  Arguments arguments;
  add_zoo_arguments(app, arguments.zoo);
  app.add_option("--batch", arguments.batch, "examples in a batch")->capture_default_str();
  app.add_option("--batches", arguments.batches, "different batches, gone round")->capture_default_str();
  app.add_option("--cut", arguments.cut, "whole, a number of sections, or blocks")->capture_default_str();
  app.add_option("--steps", arguments.steps, "train this many steps and print medians; 0: take commands")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--choices", arguments.choices,
                 "with --steps: write the algorithms of libraries that ran to this file");
  app.add_option("--timeline", arguments.timeline,
                 "with --steps: write one more step's timeline to this file, for Perfetto");
  add_device_arguments(app, arguments.device);
  app.add_option("--device-memory", arguments.device_memory, "budget, as in 512MiB; all of the device if absent")
      ->check(size_argument());
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--seed", arguments.seed, "of data and initial values")->capture_default_str();
  return sectionflow::run_program(app, argc, argv, [&] {
    SF_CHECK(
        arguments.steps > 0 || (arguments.choices.empty() && arguments.timeline.empty()), ArgumentError,
        "--choices and --timeline belong to --steps; without it say 'choices FILE' or 'timeline FILE' as a command");
    Training training(arguments);
    return arguments.steps > 0 ? measure(training, arguments) : serve(training, arguments);
  });
}

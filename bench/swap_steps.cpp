// Trains a model of the zoo as a whole under a budget, with what does not fit offloaded to host memory or to disk, and
// compares what a step was predicted to take with what it takes.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "bench/zoo_arguments.h"
#include "examples/models/command_line.h"
#include "runtime/engine.h"
#include "sectionflow.h"
#include "swap/simulate.h"

namespace {

using namespace sectionflow;

struct Arguments {
  ZooArguments zoo;
  std::int64_t batch = 32;
  std::string device_memory, host_memory, disk, link, profile;
  bool copy_threads = false, nominal = false;
  int threads = 0, steps = 5;
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Simulates one traced cycle by the durations of its own steps: how far the simulation is off when the times of the
/// steps are right.
void check_simulation(const Program& program, const Trace& trace, double measured_ms) {
  std::array<std::vector<double>, kNumLanes> durations;
  std::vector<Trace::Event> events = trace.events();
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.start_us < b.start_us; });
  for (const Trace::Event& event : events) {
    durations[static_cast<std::size_t>(event.lane)].push_back(event.duration_us / 1e6);
  }
  std::array<std::size_t, kNumLanes> next{};
  std::vector<double> seconds;
  for (const Step& step : program.schedule.steps) {
    const auto lane = static_cast<std::size_t>(step.lane);
    seconds.push_back(durations[lane].at(next[lane]++));
  }
  const double simulated_ms = simulate(program.schedule, seconds).seconds * 1e3;
  std::printf("traced step: %.1f ms, simulated from its own kernels and copies %.1f ms (%+.1f %%)\n", measured_ms,
              simulated_ms, 100 * (simulated_ms / measured_ms - 1));
}

int run(const Arguments& arguments) {
  const ZooModel model = model_of(arguments.zoo, Cut{});
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainableModel built = model.build(graph, manager);
  const Batch batch = model.batch({.batch = arguments.batch, .seed = 1, .step = 0});
  const Feeds feeds = built.feeds(batch);
  const RunOptions targets{.targets = manager.training_operations()};
  const auto bytes = [](const std::string& text) { return text.empty() ? 0 : parse_bytes(text); };
  Session session(graph, {.device_memory = bytes(arguments.device_memory),
                          .host_memory = bytes(arguments.host_memory),
                          .disk = bytes(arguments.disk),
                          .copy_threads = arguments.copy_threads,
                          .link_bandwidth = static_cast<double>(bytes(arguments.link)),
                          .threads = arguments.threads});
  session.initialize();
  const ProgramReport whole = session.plan({built.loss}, types_of(feeds), targets);
  std::printf("whole graph: %s, %d steps\n", bytes_text(whole.planned_peak_bytes).c_str(), whole.num_steps);
  SwapOptions options;
  if (!arguments.nominal) {
    const auto start = std::chrono::steady_clock::now();
    options.profile = arguments.profile.empty()
                          ? measure_profile(session, {built.loss}, types_of(feeds), targets)
                          : load_or_measure_profile(arguments.profile, session, {built.loss}, types_of(feeds), targets);
    std::printf("profile:     there in %.0f ms, link %.1f / %.1f GB/s\n", milliseconds_since(start),
                options.profile->link_out / 1e9, options.profile->link_in / 1e9);
  }
  insert_swaps(session, options);
  const auto start = std::chrono::steady_clock::now();
  const ProgramReport report = session.plan({built.loss}, types_of(feeds), targets);
  std::printf("plan:        made in %.0f ms\n%s", milliseconds_since(start), report.text().c_str());
  std::vector<double> samples;
  for (int step = 0; step <= arguments.steps && report.fits; ++step) {
    const auto begin = std::chrono::steady_clock::now();
    session.run(built.loss, feeds, targets);
    if (step > 0) samples.push_back(milliseconds_since(begin));
  }
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double predicted = report.predicted_seconds * 1e3, measured = samples[samples.size() / 2];
  std::printf("step:        predicted %.1f ms, measured %.1f ms (%+.1f %%), from %.1f to %.1f\n", predicted, measured,
              100 * (predicted / measured - 1), samples.front(), samples.back());
  Trace trace;
  session.set_trace(&trace);
  const auto begin = std::chrono::steady_clock::now();
  session.run(built.loss, feeds, targets);
  const double traced_ms = milliseconds_since(begin);
  check_simulation(engine(session).whole_program({built.loss}, types_of(feeds), targets), trace, traced_ms);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Predicted and measured time of a training step that swaps.");
  add_zoo_arguments(app, arguments.zoo);
  app.add_option("--batch", arguments.batch, "examples in a batch")->capture_default_str();
  app.add_option("--device-memory", arguments.device_memory, "budget, as in 512MiB; all of the machine if absent")
      ->check(size_argument());
  app.add_option("--host-memory", arguments.host_memory,
                 "budget of host memory for what is offloaded, as in 1GiB; all of it if absent")
      ->check(size_argument());
  app.add_option("--disk", arguments.disk, "size of the swap file, as in 1GiB; nothing is offloaded to disk if absent")
      ->check(size_argument());
  app.add_option("--link", arguments.link, "holds copies down to so much a second and direction, as in 1GiB")
      ->check(size_argument());
  app.add_flag("--copy-threads", arguments.copy_threads, "copies by threads of their own, beside the compute team");
  app.add_flag("--nominal", arguments.nominal, "plan by the nominal profile instead of a measured one");
  app.add_option(
      "--profile", arguments.profile,
      "a file with this machine's speeds; measured and written where there is none yet, only measured if absent");
  app.add_option("--threads", arguments.threads, "compute threads; 0: every core")->capture_default_str();
  app.add_option("--steps", arguments.steps, "timed steps")->capture_default_str();
  return sectionflow::run_program(app, argc, argv, [&] { return run(arguments); });
}

#include "compare/compare_strategies.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "compare/contender.h"

namespace sectionflow {
namespace {

/// A strategy in the race.
struct Runner {
  std::unique_ptr<Contender> contender;
  TrainingState initial, state;
  std::vector<double> step_ms;
  StrategyResult result;
};

void take_report(const ProgramReport& report, StrategyResult& result) {
  result.fits = report.fits;
  result.misfit = misfit_of(report);
  result.planned_peak_bytes = report.planned_peak_bytes;
  result.host.planned_bytes = report.host_peak_bytes;
  result.disk.planned_bytes = report.disk_peak_bytes;
  result.persistent_bytes = report.persistent_bytes;
  result.lower_bound_bytes = report.lower_bound_bytes;
  result.border_bytes = report.border_bytes;
  result.section_bytes = report.section_bytes;
  result.transient_share = static_cast<double>(report.transient_bytes) /
                           static_cast<double>(std::max<std::size_t>(1, report.border_bytes + report.section_bytes));
  result.recomputed_ops = report.recomputed_operations;
  result.bytes_out = report.bytes_out;
  result.bytes_in = report.bytes_in;
  result.disk_bytes_out = report.disk_bytes_out;
  result.disk_bytes_in = report.disk_bytes_in;
  result.predicted_seconds = report.predicted_seconds;
}

void take_misfit(const BudgetError& error, StrategyResult& result) {
  result.fits = false;
  result.misfit = first_line(error);
}

/// Nothing when already its making says that it does not fit.
std::unique_ptr<Contender> contender_of(const Strategy& strategy, const SessionOptions& options, const Batch& batch,
                                        StrategyResult& result) {
  try {
    return std::make_unique<Contender>(strategy, options, batch.images.shape()[0]);
  } catch (const Error& error) {
    if (!is_misfit(error)) throw;
    result.misfit = first_line(error);
    return nullptr;
  }
}

/// A session on a GPU takes all of its budget at once, so that "all memory" would leave none for the others: it gets
/// what its plan needs.
SessionOptions with_a_budget(const Strategy& strategy, SessionOptions options, const Batch& batch) {
  if (options.device.kind == DeviceKind::cpu || options.device_memory.is_limited()) return options;
  StrategyResult ignored;
  const auto drafted = contender_of(strategy, options, batch, ignored);
  if (!drafted) return options;
  const ProgramReport report = drafted->plan(types_of(drafted->model().feeds(batch)));
  if (report.fits) options.device_memory = report.planned_peak_bytes;
  return options;
}

std::unique_ptr<Runner> prepare(const Strategy& strategy, const CompareOptions& options,
                                const SessionOptions& session_options, const Batch& batch) {
  auto runner = std::make_unique<Runner>();
  runner->result.name = strategy.name;
  runner->contender = contender_of(strategy, with_a_budget(strategy, session_options, batch), batch, runner->result);
  if (!runner->contender) return runner;
  Session& session = runner->contender->session();
  if (options.on_session) options.on_session(strategy, session);
  std::string no_variables;
  try {
    // Before the plan, which is then kept for the first step.
    session.initialize();
  } catch (const BudgetError& error) {
    no_variables = first_line(error);
  }
  take_report(runner->contender->plan(types_of(runner->contender->model().feeds(batch))), runner->result);
  if (!no_variables.empty() && runner->result.fits) {
    runner->result.fits = false;
    runner->result.misfit = no_variables;
  }
  if (runner->result.fits) runner->initial.variables = read_variables(session);
  if (!runner->result.fits) runner->result.timeline = timeline_of(session);
  return runner;
}

/// The value below which the share `share` of the sorted samples lies, interpolated.
double quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return quantile(samples, 0.5);
}

/// The first step: with canaries in all memory that it may use.
void run_measured(Runner& runner, const Batch& batch) {
  Session& session = runner.contender->session();
  session.set_measuring(true);
  try {
    runner.state.losses.push_back(runner.contender->step(batch));
  } catch (const BudgetError& error) {
    // The machine has not what the budgets promise: nothing has run.
    take_misfit(error, runner.result);
  }
  session.set_measuring(false);
  if (!runner.result.fits) return;
  const Statistics& statistics = session.statistics();
  runner.result.measured_peak_bytes = statistics.measured_peak_bytes;
  runner.result.host.measured_bytes = statistics.measured_host_peak_bytes;
  runner.result.disk.measured_bytes = statistics.measured_disk_peak_bytes;
}

void run_timed(Runner& runner, const Batch& batch) {
  const auto start = std::chrono::steady_clock::now();
  runner.state.losses.push_back(runner.contender->step(batch));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  runner.step_ms.push_back(took.count());
}

void run_traced(Runner& runner, const Batch& batch) {
  Session& session = runner.contender->session();
  Trace trace;
  session.set_trace(&trace);
  runner.state.losses.push_back(runner.contender->step(batch));
  session.set_trace(nullptr);
  runner.result.swaps = swap_times(trace.events());
  runner.result.timeline = timeline_of(session, &trace);
}

void judge(Runner& runner, const Runner& measure) {
  std::vector<double> sorted = runner.step_ms, ratios;
  std::sort(sorted.begin(), sorted.end());
  runner.result.step_ms = {quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)};
  for (std::size_t i = 0; i < runner.step_ms.size(); ++i) ratios.push_back(runner.step_ms[i] / measure.step_ms[i]);
  runner.result.ratio = median(ratios);
  runner.result.difference = first_difference(measure.state, runner.state);
  const TrainingState end{read_variables(runner.contender->session()), {}};
  if (first_difference(runner.initial, end).empty()) runner.result.difference = "training has changed nothing";
  runner.result.identical = runner.result.difference.empty();
}

/// The reference if there is one, then all strategies.
std::vector<std::unique_ptr<Runner>> line_up(const std::vector<Strategy>& strategies, const CompareOptions& options,
                                             const Batch& batch) {
  std::vector<std::unique_ptr<Runner>> runners;
  if (options.reference) {
    SessionOptions unlimited = options.session;
    unlimited.device_memory = unlimited.host_memory = 0;
    unlimited.swap_variables = false;
    runners.push_back(prepare(*options.reference, options, unlimited, batch));
  }
  for (const Strategy& strategy : strategies) runners.push_back(prepare(strategy, options, options.session, batch));
  return runners;
}

/// All steps, one of every strategy in turn.
void race(std::vector<std::unique_ptr<Runner>>& runners, const CompareOptions& options) {
  const auto round = [&](std::int64_t step, void (*run)(Runner&, const Batch&)) {
    const Batch batch = options.batch(step);
    for (auto& runner : runners) {
      if (runner->result.fits) run(*runner, batch);
    }
  };
  for (std::int64_t step = 0; step < options.steps; ++step) {
    round(step, step == 0 ? run_measured : run_timed);
    if (options.on_round) options.on_round(step + 1);
  }
  if (options.traced) round(options.steps, run_traced);
  const auto measure = std::find_if(runners.begin(), runners.end(), [](const auto& r) { return r->result.fits; });
  for (auto& runner : runners) {
    if (runner->result.fits) runner->state.variables = read_variables(runner->contender->session());
  }
  for (auto& runner : runners) {
    if (runner->result.fits) judge(*runner, **measure);
  }
}

}  // namespace

std::map<std::string, HostTensor> read_variables(Session& session) {
  std::map<std::string, HostTensor> variables;
  for (Value variable : session.graph().values(kVariables)) variables.emplace(variable.name(), session.read(variable));
  return variables;
}

std::string first_difference(const TrainingState& a, const TrainingState& b) {
  if (a.losses.size() != b.losses.size()) return "the number of losses differs";
  for (std::size_t i = 0; i < a.losses.size(); ++i) {
    const std::string difference = first_difference(a.losses[i], b.losses[i]);
    if (!difference.empty()) return text_of("the loss of step ", i, " differs ", difference);
  }
  for (const auto& [name, tensor] : a.variables) {
    const auto other = b.variables.find(name);
    if (other == b.variables.end()) return "variable '" + name + "' is missing";
    const std::string difference = first_difference(tensor, other->second);
    if (!difference.empty()) return text_of("variable '", name, "' differs ", difference);
  }
  return a.variables.size() == b.variables.size() ? "" : "the number of variables differs";
}

Comparison compare_strategies(const std::vector<Strategy>& strategies, const CompareOptions& options) {
  SF_CHECK(options.steps >= 2, ArgumentError, "compare_strategies: ", options.steps, " steps; wanted 2 at least");
  SF_CHECK(!strategies.empty(), ArgumentError, "compare_strategies got no strategy");
  const Batch first_batch = options.batch(0);
  std::vector<std::unique_ptr<Runner>> runners = line_up(strategies, options, first_batch);
  race(runners, options);
  // Before a further session makes handles of its own.
  const auto& trained = std::find_if(runners.begin(), runners.end(), [](const auto& r) { return r->result.fits; });
  const std::size_t context_bytes = trained == runners.end() ? 0 : (*trained)->contender->session().context_bytes();
  Graph none;
  const Session session(none, options.session);  // what its options come to
  Comparison comparison{.model = options.model,
                        .batch = first_batch.images.shape()[0],
                        .steps = options.steps,
                        .device = session.device_name(),
                        .threads = session.threads(),
                        .budgets = session.budgets(),
                        .context_bytes = context_bytes,
                        .device_limited = options.session.device_memory.is_limited(),
                        .swap_variables = options.session.swap_variables,
                        .copy_threads = options.session.copy_threads,
                        .link_bandwidth = options.session.link_bandwidth,
                        .reference = {},
                        .strategies = {},
                        .largest = {}};
  for (auto& runner : runners) comparison.strategies.push_back(std::move(runner->result));
  if (options.reference) {
    comparison.reference = std::move(comparison.strategies.front());
    comparison.strategies.erase(comparison.strategies.begin());
  }
  return comparison;
}

bool Comparison::all_identical() const {
  return std::all_of(strategies.begin(), strategies.end(),
                     [](const StrategyResult& result) { return result.identical || !result.fits; });
}

}  // namespace sectionflow

#include "train/compare_strategies.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/error.h"

namespace sectionflow {
namespace {

/// One strategy with all that it trains.
struct Contender {
  explicit Contender(const Strategy& strategy) : strategy(strategy) {}

  Strategy strategy;
  Graph graph;
  std::unique_ptr<GraphSectionManager> manager;
  std::unique_ptr<Session> session;
  TrainableModel model;
  TrainingState initial, state;
  std::vector<double> step_ms;
  StrategyResult result;

  HostTensor step(const Batch& batch) {
    const Feeds feeds = model.feeds(batch);
    if (strategy.whole_graph) {
      auto [loss] = session->run({model.loss}, feeds, {.targets = manager->training_operations()});
      return std::move(loss);
    }
    auto [loss] = manager->run_full_cycle(*session, {model.loss}, feeds);
    return std::move(loss);
  }

  ProgramReport plan(const Batch& batch) {
    const FeedTypes types = types_of(model.feeds(batch));
    return strategy.whole_graph ? session->plan({model.loss}, types, {.targets = manager->training_operations()})
                                : manager->plan(*session, {model.loss}, types);
  }
};

std::unique_ptr<Contender> prepare(const Strategy& strategy, const CompareOptions& options, const Batch& batch) {
  auto contender = std::make_unique<Contender>(strategy);
  contender->manager = std::make_unique<GraphSectionManager>(contender->graph);
  contender->model = strategy.build(contender->graph, *contender->manager);
  contender->session = std::make_unique<Session>(contender->graph, options.session);
  if (options.on_session) options.on_session(strategy, *contender->session);
  const ProgramReport report = contender->plan(batch);
  contender->result = {
      .name = strategy.name,
      .fits = report.fits,
      .step_ms = {},
      .planned_peak_bytes = report.planned_peak_bytes,
      .persistent_bytes = report.persistent_bytes,
      .lower_bound_bytes = report.lower_bound_bytes,
      .border_bytes = report.border_bytes,
      .section_bytes = report.section_bytes,
      .transient_share = static_cast<double>(report.transient_bytes) /
                         static_cast<double>(std::max<std::size_t>(1, report.border_bytes + report.section_bytes)),
      .recomputed_ops = report.recomputed_operations,
      .difference = {}};
  if (report.fits) {
    contender->session->initialize();
    contender->initial.variables = read_variables(*contender->session);
  }
  return contender;
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

void run_round(Contender& contender, const Batch& batch, bool measured) {
  contender.session->set_measuring(measured);
  const auto start = std::chrono::steady_clock::now();
  contender.state.losses.push_back(contender.step(batch));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (measured) {
    contender.result.measured_peak_bytes = contender.session->statistics().measured_peak_bytes;
  } else {
    contender.step_ms.push_back(took.count());
  }
}

void judge(Contender& contender, const Contender& first) {
  std::vector<double> sorted = contender.step_ms, ratios;
  std::sort(sorted.begin(), sorted.end());
  contender.result.step_ms = {quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)};
  for (std::size_t i = 0; i < contender.step_ms.size(); ++i) ratios.push_back(contender.step_ms[i] / first.step_ms[i]);
  contender.result.ratio = median(ratios);
  contender.result.difference = first_difference(first.state, contender.state);
  const TrainingState end{read_variables(*contender.session), {}};
  if (first_difference(contender.initial, end).empty()) contender.result.difference = "training has changed nothing";
  contender.result.identical = contender.result.difference.empty();
}

std::string row(const StrategyResult& r) {
  char line[256];
  if (!r.fits) {
    std::snprintf(line, sizeof(line), "%-16s %12s  does not fit the budget\n", r.name.c_str(),
                  bytes_text(r.planned_peak_bytes).c_str());
    return line;
  }
  std::snprintf(line, sizeof(line), "%-16s %12s %13s %10s %10s %7.3f %10.1f %7.3f %11d   identical: %s\n",
                r.name.c_str(), bytes_text(r.planned_peak_bytes).c_str(), bytes_text(r.measured_peak_bytes).c_str(),
                bytes_text(r.border_bytes).c_str(), bytes_text(r.section_bytes).c_str(), r.transient_share,
                r.step_ms.median, r.ratio, r.recomputed_ops, r.identical ? "yes" : "no");
  return r.identical ? line : line + std::string("    ") + r.difference + "\n";
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
  std::vector<std::unique_ptr<Contender>> contenders;
  const Batch first_batch = options.batch(0);
  for (const Strategy& strategy : strategies) contenders.push_back(prepare(strategy, options, first_batch));
  for (std::int64_t step = 0; step < options.steps; ++step) {
    const Batch batch = options.batch(step);
    for (auto& contender : contenders) {
      if (contender->result.fits) run_round(*contender, batch, step == 0);
    }
    if (options.on_round) options.on_round(step + 1);
  }
  Comparison comparison{.model = options.model,
                        .batch = first_batch.images.shape()[0],
                        .threads = contenders.front()->session->threads(),
                        .strategies = {}};
  const auto first = std::find_if(contenders.begin(), contenders.end(), [](const auto& c) { return c->result.fits; });
  for (auto& contender : contenders) {
    if (contender->result.fits) {
      contender->state.variables = read_variables(*contender->session);
      judge(*contender, **first);
    }
    comparison.strategies.push_back(contender->result);
  }
  return comparison;
}

std::string Comparison::text() const {
  char header[256];
  std::snprintf(header, sizeof(header), "%-16s %12s %13s %10s %10s %7s %10s %7s %11s\n", "strategy", "planned peak",
                "measured peak", "borders", "section", "share", "step ms", "ratio", "recomputed");
  std::string table = header;
  for (const StrategyResult& result : strategies) table += row(result);
  return table;
}

std::string Comparison::json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const StrategyResult& r : strategies) {
    rows.push_back({{"name", r.name},
                    {"fits", r.fits},
                    {"step_ms", {{"median", r.step_ms.median}, {"p25", r.step_ms.p25}, {"p75", r.step_ms.p75}}},
                    {"ratio", r.ratio},
                    {"planned_peak_bytes", r.planned_peak_bytes},
                    {"measured_peak_bytes", r.measured_peak_bytes},
                    {"persistent_bytes", r.persistent_bytes},
                    {"lower_bound_bytes", r.lower_bound_bytes},
                    {"border_bytes", r.border_bytes},
                    {"section_bytes", r.section_bytes},
                    {"transient_share", r.transient_share},
                    {"recomputed_ops", r.recomputed_ops},
                    {"identical", r.identical}});
  }
  return nlohmann::ordered_json{{"model", model}, {"batch", batch}, {"threads", threads}, {"strategies", rows}}.dump(
             2) +
         "\n";
}

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/export.h"
#include "data/batch_loader.h"
#include "runtime/session.h"
#include "sections/graph_section_manager.h"

namespace SF_API sectionflow {

/// A model that is ready to train: its loss, and how a batch is fed to it.
struct TrainableModel {
  Value loss;
  std::function<Feeds(const Batch&)> feeds;  ///< the feeds point into the batch
};

/// One way of training.
struct Strategy {
  std::string name;          ///< "whole", "sections:4"
  bool whole_graph = false;  ///< Session::run with all updates, instead of run_full_cycle
  /// Builds the model in its sections, adds the training operations and prepares the manager.
  std::function<TrainableModel(Graph&, GraphSectionManager&)> build;
};

/// What compare_strategies trains, for how long, on what, and whom it tells.
struct CompareOptions {
  std::string model{};      ///< for the report
  std::int64_t steps = 20;  ///< training steps of each strategy, the first of which is measured and not timed
  SessionOptions session{};
  /// The batch of a step; every strategy gets the same.
  std::function<Batch(std::int64_t step)> batch{};
  /// Called after each round of one step of every strategy.
  std::function<void(std::int64_t steps_done)> on_round{};
  /// Called once a strategy before its first step. Tests plant faults here.
  std::function<void(const Strategy&, Session&)> on_session{};
};

/// Of the numbers measured: a quarter lies below the first, half below the second, a quarter above the third.
struct Quartiles {
  double p25 = 0, median = 0, p75 = 0;
};

/// How one strategy did, and whether it gave the bits of the first.
struct StrategyResult {
  std::string name;
  bool fits = false;  ///< in the budget; if not, nothing below but the planned bytes is known
  Quartiles step_ms;
  double ratio = 0;  ///< of step times to those of the first strategy that fits, round by round: the median
  std::size_t planned_peak_bytes = 0;
  std::size_t measured_peak_bytes = 0;
  std::size_t persistent_bytes = 0;
  std::size_t lower_bound_bytes = 0;
  std::size_t border_bytes = 0;   ///< as in ProgramReport
  std::size_t section_bytes = 0;  ///< as in ProgramReport
  /// The transient peak as a share of border_bytes + section_bytes.
  double transient_share = 0;
  int recomputed_ops = 0;
  /// Every byte of parameters, optimiser slots, running statistics and losses equals that of the first strategy that
  /// fits, and training has changed the parameters at all.
  bool identical = false;
  std::string difference;  ///< the first thing that differs; empty when identical
};

/// What compare_strategies has found, strategy by strategy, in the order of asking.
struct Comparison {
  std::string model;
  std::int64_t batch = 0;
  int threads = 0;
  std::vector<StrategyResult> strategies;

  /// A table for people.
  std::string text() const;
  std::string json() const;
};

/// Everything that training changes.
struct TrainingState {
  std::map<std::string, HostTensor> variables;
  std::vector<HostTensor> losses;
};
/// All variables of a session by name.
std::map<std::string, HostTensor> read_variables(Session& session);
/// The first loss or variable that differs in any byte, and how: "variable 'w' differs at element [3]: 1.5 (0x3fc00000)
/// and 2 (0x40000000)"; empty when none does.
std::string first_difference(const TrainingState& a, const TrainingState& b);

/// Trains one model by each strategy, in one process, from the same seed, on the same batches, one step of each in
/// turn. Throws: what building and training throw, but for a BudgetError: a strategy that does not fit is reported.
Comparison compare_strategies(const std::vector<Strategy>& strategies, const CompareOptions& options);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "compare/largest_size.h"
#include "compare/memory_timeline.h"
#include "compare/strategy.h"
#include "data/batch_loader.h"
#include "fit/budget_frontier.h"
#include "runtime/session.h"
#include "runtime/trace.h"
#include "sections/graph_section_manager.h"

namespace SF_API sectionflow {

/// What compare_strategies trains, for how long, on what, and whom it tells.
struct CompareOptions {
  std::string model{};      ///< for the report
  std::int64_t steps = 20;  ///< training steps of each strategy, the first of which is measured and not timed
  SessionOptions session{};
  /// The batch of a step; every strategy gets the same.
  std::function<Batch(std::int64_t step)> batch{};
  /// A strategy that is trained too, under no budget and with its variables on the device: what all others are held
  /// against, in bytes and in time. Without one, and where it exceeds the machine, the first strategy that fits is.
  std::optional<Strategy> reference{};
  /// Traces one more step of each strategy, for StrategyResult::swaps and timeline. It counts for no time.
  bool traced = true;
  /// Called after each round of one step of every strategy.
  std::function<void(std::int64_t steps_done)> on_round{};
  /// Called once a strategy before its first step. Tests plant faults here.
  std::function<void(const Strategy&, Session&)> on_session{};
};

/// Of the numbers measured: a quarter lies below the first, half below the second, a quarter above the third.
struct Quartiles {
  double p25 = 0, median = 0, p75 = 0;
};

/// The fullest moment of one tier.
struct TierUse {
  std::size_t planned_bytes = 0;
  std::size_t measured_bytes = 0;
};

/// How one strategy did, and whether it gave the bits of the first.
struct StrategyResult {
  std::string name;
  bool fits = false;   ///< in all budgets; if not, nothing is measured
  std::string misfit;  ///< why it does not: the first line of the BudgetError
  Quartiles step_ms;
  double ratio = 0;                    ///< of step times to those of the reference, round by round: the median
  std::size_t planned_peak_bytes = 0;  ///< of device memory
  std::size_t measured_peak_bytes = 0;
  TierUse host, disk;
  std::size_t persistent_bytes = 0;
  std::size_t lower_bound_bytes = 0;
  std::size_t border_bytes = 0;   ///< as in ProgramReport
  std::size_t section_bytes = 0;  ///< as in ProgramReport
  /// The transient peak as a share of border_bytes + section_bytes.
  double transient_share = 0;
  int recomputed_ops = 0;
  std::size_t bytes_out = 0, bytes_in = 0;            ///< copied from and to the device in a cycle
  std::size_t disk_bytes_out = 0, disk_bytes_in = 0;  ///< written to and read from the disk in a cycle
  double predicted_seconds = 0;                       ///< of a cycle, by its planner; 0: nobody predicts
  SwapTimes swaps;                                    ///< of the traced step
  /// Every byte of parameters, optimiser slots, running statistics and losses equals that of the reference, and
  /// training has changed the parameters at all.
  bool identical = false;
  std::string difference;   ///< the first thing that differs; empty when identical
  MemoryTimeline timeline;  ///< of the traced step; as planned for what does not fit
};

/// What compare_strategies has found, strategy by strategy, in the order of asking.
struct Comparison {
  std::string model;
  std::int64_t batch = 0;
  std::int64_t steps = 0;
  std::string device;  ///< "cpu (2 threads)"
  int threads = 0;
  TierBudgets budgets;  ///< of every strategy but the reference
  /// Device memory that is taken beside all budgets when all have trained: by a GPU's context, code, libraries and the
  /// recordings of all strategies, and by other programs; 0 on the CPU.
  std::size_t context_bytes = 0;
  bool device_limited = false;  ///< whether a budget of device memory was given
  bool swap_variables = false;  ///< of every strategy but the reference
  bool copy_threads = false;
  double link_bandwidth = 0;                ///< bytes a second and direction; 0: unlimited
  std::optional<StrategyResult> reference;  ///< if one was asked for
  std::vector<StrategyResult> strategies;
  std::vector<LargestSizes> largest;  ///< filled by who has looked for them
  /// Time against device memory as fit_budget plans it for the whole graph; filled by who has asked for it.
  std::optional<BudgetFrontier> frontier{};

  /// "model mnist_resnet, batch 250, 20 steps, cpu (2 threads)".
  std::string setting() const;
  /// "device memory 120 MiB, host memory 1.00 GiB, no disk, link as fast as it goes, copies by the compute team"; on a
  /// GPU "device memory 120 MiB and 312 MiB for context and libraries, ...".
  std::string limits() const;
  /// A table for people.
  std::string text() const;
  /// All of it but timelines.
  std::string json() const;
  /// Whether all that fit have the reference's bits.
  bool all_identical() const;
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

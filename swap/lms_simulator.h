#pragma once

#include <map>
#include <tuple>

#include "swap/lms_log.h"
#include "swap/lms_plan.h"

namespace sectionflow {

/// Memory in use after each allocation and each release of a simulation.
struct LmsTrace {
  std::vector<std::size_t> device, host;
};

/// What one simulation found.
struct LmsSimulation {
  bool fits = false;
  std::size_t peak_bytes = 0;  ///< on the device; where it does not fit, up to the first refusal
  std::size_t host_peak_bytes = 0;
  bool host_warning = false;  ///< more than the host's limit
  LmsTrace trace{};           ///< if asked for
};

/// What a simulation is to do beside counting.
struct LmsSimulationOptions {
  bool to_the_end = false;  ///< goes on after the first refusal
  bool trace = false;
  bool on_demand =
      false;  ///< swap-ins only for their reader, swap-outs at once: no setting of the threshold needs less
};

/// Simulates a graph level by level, nodes of a level by number, and counts the bytes of tensors by their readers.
/// Trainable variables are not counted: the budget is what they leave. An allocation is refused unless some byte stays
/// free.
class LmsSimulator {
 public:
  /// All three must outlive this.
  LmsSimulator(const LmsGraph& graph, const LmsLevels& levels, LmsLog& log, std::size_t budget_bytes,
               std::size_t host_limit_bytes);

  LmsSimulation simulate(const LmsParameters& parameters, const LmsSimulationOptions& options = {});
  /// Of parameters that do not fit: a groupby such that all above it, up to theirs, do not fit either. Sync modes 0
  /// and 1.
  int largest_groupby_left(const LmsParameters& parameters);
  std::size_t budget_bytes() const { return budget_bytes_; }
  std::size_t host_limit_bytes() const { return host_limit_bytes_; }

 private:
  friend class LmsSimulationRun;
  std::optional<NodeId> trigger(NodeId source, NodeId destination, int ahead);

  const LmsGraph* graph_;
  const LmsLevels* levels_;
  LmsLog* log_;
  std::size_t budget_bytes_, host_limit_bytes_;
  std::vector<int> first_tensor_;         // of each node, and their number at the end
  std::vector<Value> tensors_;            // by number
  std::vector<std::size_t> bytes_;        // of each tensor
  std::vector<NodeSet> readers_;          // of each tensor: those that are simulated
  std::vector<std::vector<int>> inputs_;  // of each node: distinct tensors
  std::map<std::tuple<NodeId, NodeId, int>, std::optional<NodeId>> triggers_;  // found so far
};

}  // namespace sectionflow

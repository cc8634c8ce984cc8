#pragma once

#include <string>
#include <vector>

#include "schedule/idle_stretches.h"
#include "schedule/insert_offloads.h"
#include "schedule/planning_tools.h"
#include "swap/simulate.h"
#include "swap/step_times.h"

namespace sectionflow {

/// An idle stretch that may, or must, be spent off the device.
struct OffloadCandidate {
  IdleStretch stretch{};
  std::size_t bytes = 0;                   ///< of its storage on the device, as the plan counts them
  std::size_t host_bytes = 0;              ///< of its buffer on the host, as the plan counts them
  double out_seconds = 0, in_seconds = 0;  ///< of its copies
  double drag_seconds = 0;                 ///< by which each of them delays the executions beside it
  double disk_out_seconds = 0, disk_in_seconds = 0;
  Placement placement = Placement::automatic;
  StepIndex earliest_in = 0;  ///< the first step before which it may come back
};

/// An instruction list without further offloads, as a problem for the planner. Times and bytes: by step of its draft.
struct SwapProblem {
  CopyCarrier carrier = CopyCarrier::team;
  bool has_disk = false;
  std::vector<double> seconds{};  ///< of each step
  std::vector<int> instruction_of_step{};
  std::vector<std::string> step_names{};  ///< "relu 'block1/relu', backward 1", for people
  int num_instructions = 0;
  std::vector<std::size_t> device{}, host{}, disk{};  ///< live bytes at each step
  std::vector<OffloadCandidate> candidates{};

  StepIndex num_steps() const { return static_cast<StepIndex>(seconds.size()); }
  /// "Before this step" as "before this instruction".
  int instruction_before(StepIndex step) const {
    return step < num_steps() ? instruction_of_step[static_cast<std::size_t>(step)] : num_instructions;
  }
};

/// One candidate that is offloaded, and when it is transferred. Places are "before this step".
struct Decision {
  int candidate = 0;
  bool on_disk = false;
  StepIndex hold = -1;  ///< the copy out is expected to be over; -1: nobody waits for it
  StepIndex in = 0;
  StepIndex disk_out = 0, disk_in = 0;  ///< on_disk
};

SwapProblem make_swap_problem(const InstructionList& list, const Draft& draft, const PlanningTools& tools,
                              const OffloadPolicies& request, StepTimes& times);

/// The decisions with places that are instructions of the list instead of steps.
std::vector<Offload> offloads_of(const SwapProblem& problem, const std::vector<Decision>& decisions);

}  // namespace sectionflow

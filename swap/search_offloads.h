#pragma once

#include <functional>
#include <vector>

#include "swap/relaxed_simulation.h"
#include "swap/swap_problem.h"

namespace sectionflow {

/// What is offloaded and when it is transferred, as far as that can be judged without a plan of memory.
struct OffloadPlan {
  std::vector<int> offloaded{};  ///< candidates by number, ascending
  std::vector<Decision> decisions{};
  RelaxedSimulation simulation{};
  std::size_t host_bytes = 0;  ///< alive at the fullest step, without what is on disk
};

/// Bytes that plans of offloads may use.
struct TierCapacity {
  std::size_t device = 0, host = 0;
};

/// When these candidates are best transferred.
OffloadPlan plan_offloads(const SwapProblem& problem, const TierCapacity& capacity, const std::vector<int>& offloaded);

/// The fastest plan that is found within a fixed number of trials. It begins with what is idle first, and with what
/// choose_offloads takes for the capacity, or for less by a few multiples of `slack`; then it takes one offload away,
/// or adds one, or both, as long as that makes the plan better. Less copying breaks ties. `check`, where there is one,
/// is called before each trial; what it throws ends the search.
OffloadPlan search_offloads(const SwapProblem& problem, const TierCapacity& capacity, std::size_t slack,
                            const std::function<void()>& check = {});

}  // namespace sectionflow

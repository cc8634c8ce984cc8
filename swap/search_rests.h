#pragma once

#include <vector>

#include "swap/relaxed_play.h"
#include "swap/swap_problem.h"

namespace sectionflow {

/// What rests and when it travels, as far as that can be judged without a plan of memory.
struct RestPlan {
  std::vector<int> resting{};
  std::vector<Decision> decisions{};
  RelaxedPlay play{};
  std::size_t host_bytes = 0;  ///< alive at the fullest step, without what is on disk
};

/// Room for rests.
struct RestRoom {
  std::size_t device = 0, host = 0;
};

/// When these rests travel best.
RestPlan plan_rests(const SwapProblem& problem, const RestRoom& room, const std::vector<int>& resting);

/// The fastest plan that is found within a fixed number of trials. It begins with what is idle first, and with what
/// choose_rests takes for the room, or for less of it by a few multiples of `slack`; then it takes one rest away, or
/// adds one, or both, as long as that makes the plan better. Less copying breaks ties.
RestPlan search_rests(const SwapProblem& problem, const RestRoom& room, std::size_t slack);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// When what is offloaded is transferred. Values leave as soon as they are idle; they come back as late as the link's
/// queue allows for them to be there when they are read, and later still where there is no room for them yet. `times`:
/// when the problem's steps are expected to run. `device_bytes`, `host_bytes`: what may be alive at any step.
std::vector<Decision> time_offloads(const SwapProblem& problem, const std::vector<int>& offloaded,
                                    const std::vector<bool>& on_disk, const std::vector<StepTime>& times,
                                    std::size_t device_bytes, std::size_t host_bytes);

/// The problem's steps one after the other, without a wait.
std::vector<StepTime> times_without_waits(const SwapProblem& problem);

}  // namespace sectionflow

#pragma once

#include <cstddef>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// Which candidates are offloaded so that no step has more than `device_bytes` alive on the device, at little cost in
/// copies; forced ones always are. By number, ascending. Where that many bytes cannot be reached, as close as it gets.
std::vector<int> choose_offloads(const SwapProblem& problem, std::size_t device_bytes);

/// The same, changing another choice as little as it must: what of it has become needless is given back, what is
/// missing is added. `wanted` is in the result, `unwanted` is not; -1: none. `device_bytes` should be within reach.
std::vector<int> repair_offloads(const SwapProblem& problem, std::size_t device_bytes,
                                 const std::vector<int>& offloaded, int wanted, int unwanted);

/// The fewest bytes that any choice leaves alive on the device at the fullest step.
std::size_t least_device_bytes(const SwapProblem& problem);

/// Which of the offloaded candidates go on to the disk so that the host has no more than `host_bytes` alive; one an
/// entry of `offloaded`. Forced ones always do.
std::vector<bool> choose_disk(const SwapProblem& problem, const std::vector<int>& offloaded, std::size_t host_bytes);

}  // namespace sectionflow

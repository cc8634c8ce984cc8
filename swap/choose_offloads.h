#pragma once

#include <cstddef>
#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow {

/// Which candidates are offloaded so that no step has more than `device_bytes` alive on the device, at little cost in
/// copies; forced ones always are. By number, ascending. Where that many bytes cannot be reached, as close as it gets.
std::vector<int> choose_offloads(const SwapProblem& problem, std::size_t device_bytes);

/// Steps [first, last) that something covers, by how many bytes, and at which cost.
struct Cover {
  StepIndex first = 0, last = 0;
  std::size_t bytes = 0;
  double cost = 0;
};

/// Changes a choice of offloads as little as it must, as often as it is asked to. Keeps a reference to the problem.
class OffloadRepair {
 public:
  explicit OffloadRepair(const SwapProblem& problem);

  /// Like choose_offloads, from another choice: what of it has become needless is given back, what is missing is added.
  /// `wanted` is in the result, `unwanted` is not; -1: none. `device_bytes` should be within reach.
  std::vector<int> repaired(std::size_t device_bytes, const std::vector<int>& offloaded, int wanted = -1,
                            int unwanted = -1) const;

 private:
  const SwapProblem& problem_;
  std::vector<Cover> covers_;  // one a candidate
};

/// The fewest bytes that any choice leaves alive on the device at the fullest step.
std::size_t least_device_bytes(const SwapProblem& problem);

/// Which of the offloaded candidates go on to the disk so that the host has no more than `host_bytes` alive; one an
/// entry of `offloaded`. Forced ones always do.
std::vector<bool> choose_disk(const SwapProblem& problem, const std::vector<int>& offloaded, std::size_t host_bytes);

}  // namespace sectionflow

#pragma once

#include <vector>

#include "swap/swap_problem.h"

namespace sectionflow::testing {

/// Ten steps of a second each, with candidates that are idle from step `after` to step `before`.
struct Idle {
  StepIndex after, before;
  std::size_t bytes;
  double seconds = 1;  ///< of a copy
};
inline SwapProblem problem_of(const std::vector<Idle>& idle, std::size_t others,
                              CopyCarrier carrier = CopyCarrier::team) {
  SwapProblem problem{.carrier = carrier, .has_disk = true};
  problem.seconds.assign(10, 1.0);
  problem.host.assign(10, 0);
  problem.disk.assign(10, 0);
  problem.device.assign(10, others);
  problem.num_instructions = 10;
  for (int i = 0; i < 10; ++i) problem.instruction_of_step.push_back(i);
  for (const Idle& of : idle) {
    OffloadCandidate candidate{
        .bytes = of.bytes, .host_bytes = of.bytes, .out_seconds = of.seconds, .in_seconds = of.seconds};
    candidate.disk_out_seconds = candidate.disk_in_seconds = 1;
    candidate.earliest_in = of.after + 1;
    candidate.stretch = {
        .begin = of.after + 1, .end = of.before, .bytes = of.bytes, .after = of.after, .before = of.before};
    problem.candidates.push_back(candidate);
    for (StepIndex step = of.after; step <= of.before; ++step)
      problem.device[static_cast<std::size_t>(step)] += of.bytes;
  }
  return problem;
}

}  // namespace sectionflow::testing

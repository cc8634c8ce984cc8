#pragma once

#include "comm/rank_costs.h"
#include "runtime/session.h"
#include "swap/profile.h"

namespace sectionflow {

/// A training step on so many ranks, as it is expected to go.
struct RankedStep {
  int ranks = 1;
  double seconds = 0;
  double compute_seconds = 0;      ///< of kernels, feeds and fetches
  double communicate_seconds = 0;  ///< of all communications, hidden or not
  double latency_seconds = 0;      ///< of these, what no faster link would save
  double exposed_seconds = 0;      ///< by which the step is longer than it would be if communications took no time
  double bytes_sent = 0;           ///< by the rank that sends most
  int calls = 0;                   ///< sums and gathers

  /// What a step of ranks takes longer than one rank's, as a share: 1 where communications cost nothing.
  double efficiency() const { return seconds > 0 ? (seconds - exposed_seconds) / seconds : 1; }
  /// "compute" where no more than 5 % of the step are exposed; else "latency" or "link", whichever takes more.
  const char* bound() const;
};

/// What a training step has of its gradients at a time.
struct GradientBytes {
  std::size_t held = 0;          ///< the most that are there at once, for the ranks or their updates to take
  std::size_t two_sections = 0;  ///< of the two sections with the most gradients
};

/// The training step of several ranks that the session planned last, on as many as `network` says, whatever number it
/// was planned for: the same schedule, kernels by `profile`, communications by their cost. All ranks are alike and come
/// at the same time. Nothing is run. Throws: ArgumentError where the session has planned nothing, or nothing that
/// communicates; for numbers of the profile or the network that mean nothing.
RankedStep ranked_step(const Session& session, const Profile& profile, const RankNetwork& network);

/// Of the same step. Throws: as ranked_step.
GradientBytes gradient_bytes(const Session& session);

}  // namespace sectionflow

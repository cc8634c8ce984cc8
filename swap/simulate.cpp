#include "swap/simulate.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "schedule/waits.h"

namespace sectionflow {

double Prediction::hidden_share() const {
  if (copy_seconds <= 0) return 1;
  return std::clamp(1 - stall_seconds / copy_seconds, 0.0, 1.0);
}

Prediction simulate(const Schedule& schedule, const std::vector<double>& seconds, const std::vector<double>& drags) {
  SF_CHECK(seconds.size() == schedule.steps.size() && (drags.empty() || drags.size() == seconds.size()), InternalError,
           "simulate: got ", seconds.size(), " times and ", drags.size(), " drags for ", schedule.steps.size(),
           " steps");
  Prediction prediction;
  std::array<double, kNumLanes> free{};
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    double& lane = free[static_cast<std::size_t>(step.lane)];
    double start = lane;
    for (StepIndex earlier : step.waits) {
      start = std::max(start, prediction.steps[static_cast<std::size_t>(earlier)].end);
    }
    lane = start + seconds[i];
    prediction.steps.push_back({start, lane});
    if (is_transfer(step.kind)) prediction.copy_seconds += seconds[i];
    if (!is_transfer(step.kind) && step.lane == Lane::compute) prediction.compute_seconds += seconds[i];
    if (!drags.empty()) free[static_cast<std::size_t>(Lane::compute)] += drags[i];
  }
  prediction.seconds = *std::max_element(free.begin(), free.end());
  prediction.stall_seconds = std::max(0.0, prediction.seconds - prediction.compute_seconds);
  return prediction;
}

Prediction predict(Draft& draft, StepTimes& times) {
  add_waits(draft.schedule, draft.storage, draft.plan);
  return simulate(draft.schedule, times.of(draft.schedule), times.drags_of(draft.schedule));
}

}  // namespace sectionflow

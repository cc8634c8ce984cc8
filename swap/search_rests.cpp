#include "swap/search_rests.h"

#include <algorithm>

#include "swap/choose_rests.h"
#include "swap/time_rests.h"

namespace sectionflow {
namespace {

/// How many multiples of the slack are left free at most when choosing what rests: what then is free lets values come
/// back earlier.
constexpr int kMostSlack = 2;
/// How often the times that copies are expected to cause are taken as the base of their timing.
constexpr int kRetimings = 3;
/// Changed plans that are looked at.
constexpr int kMostTrials = 1500;
/// A second of copying beside the team is worth so much of a second of waiting: less travels, less goes wrong.
constexpr double kCostOfCopying = 0.01;

std::vector<bool> disk_choice(const SwapProblem& problem, const std::vector<int>& resting, std::size_t host_bytes) {
  if (!problem.has_disk) return std::vector<bool>(resting.size(), false);
  return choose_disk(problem, resting, host_bytes);
}

std::size_t host_bytes_of(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  std::vector<std::size_t> load(problem.seconds.size() + 1, 0);
  std::copy(problem.host.begin(), problem.host.end(), load.begin());
  for (const Decision& decision : decisions) {
    const RestCandidate& candidate = problem.candidates[static_cast<std::size_t>(decision.candidate)];
    for (StepIndex place = candidate.stretch.after + 1; place <= decision.in; ++place) {
      if (decision.on_disk && place > decision.disk_out && place < decision.disk_in) continue;
      load[static_cast<std::size_t>(place)] += candidate.host_bytes;
    }
  }
  return *std::max_element(load.begin(), load.end());
}

/// Times the rests, beginning with these times of the steps, and again by what comes of it.
RestPlan timed(const SwapProblem& problem, const RestRoom& room, const std::vector<int>& resting,
               std::vector<StepTime> times, int timings) {
  const std::vector<bool> on_disk = disk_choice(problem, resting, room.host);
  RestPlan best{.resting = resting, .decisions = {}, .play = {}};
  for (int i = 0; i < timings; ++i) {
    auto decisions = time_rests(problem, resting, on_disk, times, room.device, room.host);
    RelaxedPlay play = play_relaxed(problem, decisions, room.device);
    times = play.steps;
    if (i > 0 && play.seconds >= best.play.seconds) continue;
    best.decisions = std::move(decisions);
    best.play = std::move(play);
  }
  best.host_bytes = host_bytes_of(problem, best.decisions);
  return best;
}

/// Goes from one plan to a better one as long as a small change makes it better.
class RestSearch {
 public:
  RestSearch(const SwapProblem& problem, const RestRoom& room, RestPlan start)
      : problem_(problem),
        room_(room),
        best_(std::move(start)),
        most_device_bytes_(std::max(room.device, device_bytes_with(best_.resting))) {}

  RestPlan search() {
    while (trials_ > 0 && is_worth_it() && improve()) {
    }
    return std::move(best_);
  }

 private:
  bool improve() {
    const std::vector<int> resting = best_.resting;
    for (int number : resting) {
      if (change(-1, number)) return true;
    }
    for (int other = 0; other < static_cast<int>(problem_.candidates.size()); ++other) {
      if (!contains(resting, other) && change(other, -1)) return true;
    }
    for (int number : resting) {
      for (int other = 0; other < static_cast<int>(problem_.candidates.size()); ++other) {
        if (!contains(resting, other) && change(other, number)) return true;
      }
    }
    return false;
  }

  static bool contains(const std::vector<int>& sorted, int number) {
    return std::binary_search(sorted.begin(), sorted.end(), number);
  }

  bool is_worth_it() const { return excess(best_) > 0 || !best_.resting.empty(); }

  bool change(int wanted, int unwanted) {
    if (trials_ <= 0) return false;
    if (wanted >= 0 && problem_.candidates[static_cast<std::size_t>(wanted)].bytes < least_bytes_) return false;
    if (unwanted >= 0 && wanted >= 0 && problem_.candidates[static_cast<std::size_t>(unwanted)].bytes < least_bytes_) return false;
    if (unwanted >= 0 && problem_.candidates[static_cast<std::size_t>(unwanted)].placement != Placement::automatic) {
      return false;
    }
    std::vector<int> resting = repair_rests(problem_, room_.device, best_.resting, wanted, unwanted);
    if (resting == best_.resting || device_bytes_with(resting) > most_device_bytes_) return false;
    --trials_;
    RestPlan plan = timed(problem_, room_, resting, best_.play.steps, 1);
    if (!is_better(plan, best_)) return false;
    best_ = std::move(plan);
    return true;
  }

  /// At the fullest step.
  std::size_t device_bytes_with(const std::vector<int>& resting) const {
    std::vector<std::size_t> change(problem_.device.size() + 1, 0);
    for (int number : resting) {
      const RestCandidate& candidate = problem_.candidates[static_cast<std::size_t>(number)];
      change[static_cast<std::size_t>(candidate.stretch.after + 1)] += candidate.bytes;
      change[static_cast<std::size_t>(candidate.stretch.before)] -= candidate.bytes;
    }
    std::size_t away = 0, most = 0;
    for (std::size_t step = 0; step < problem_.device.size(); ++step) {
      away += change[step];
      most = std::max(most, problem_.device[step] - away);
    }
    return most;
  }

  bool is_better(const RestPlan& a, const RestPlan& b) const {
    if (excess(a) != excess(b)) return excess(a) < excess(b);
    return cost(a) < cost(b) * (1 - 1e-9);
  }
  std::size_t excess(const RestPlan& plan) const { return plan.host_bytes - std::min(plan.host_bytes, room_.host); }
  double cost(const RestPlan& plan) const {
    double copies = 0;
    for (int number : plan.resting) {
      const RestCandidate& candidate = problem_.candidates[static_cast<std::size_t>(number)];
      copies += candidate.out_seconds + candidate.in_seconds;
    }
    return plan.play.seconds + kCostOfCopying * copies;
  }

  const SwapProblem& problem_;
  RestRoom room_;
  RestPlan best_;
  std::size_t most_device_bytes_;
  std::size_t least_bytes_ = 500000;
  int trials_ = kMostTrials;
};

}  // namespace

RestPlan plan_rests(const SwapProblem& problem, const RestRoom& room, const std::vector<int>& resting) {
  return timed(problem, room, resting, times_without_waits(problem), kRetimings);
}

RestPlan retimed(const SwapProblem& problem, const RestRoom& room, const std::vector<int>& resting, const std::vector<StepTime>& times) { return timed(problem, room, resting, times, 1); }
RestPlan search_rests(const SwapProblem& problem, const RestRoom& room, std::size_t slack) {
  RestPlan best;
  for (int i = 0; i <= (problem.carrier == CopyCarrier::threads ? kMostSlack : 0); ++i) {
    const std::size_t less = static_cast<std::size_t>(i) * slack;
    RestPlan plan = plan_rests(problem, room, choose_rests(problem, room.device - std::min(room.device, less)));
    if (i == 0 || plan.play.seconds < best.play.seconds) best = std::move(plan);
  }
  return RestSearch(problem, room, std::move(best)).search();
}

}  // namespace sectionflow

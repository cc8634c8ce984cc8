#include "swap/search_offloads.h"

#include <algorithm>
#include <utility>

#include "swap/choose_offloads.h"
#include "swap/time_offloads.h"

namespace sectionflow {
namespace {

/// How many multiples of the slack are left free at most when choosing what is offloaded: what then is free lets values
/// come back earlier.
constexpr int kMostSlack = 2;
/// How often the times that copies are expected to cause are taken as the base of their timing.
constexpr int kRetimings = 3;
/// The best starts are searched from.
constexpr std::size_t kSearches = 2;
/// The share of the least time that is not worth a search.
constexpr double kNothing = 1e-3;
/// Changed plans that are looked at from each start.
constexpr int kMostTrials = 1000;
/// A second of copying beside the team is worth so much of a second of waiting: less copied, less goes wrong.
constexpr double kCostOfCopying = 0.01;
/// Candidates of less than this part of the bytes that are too many are not worth a trial.
constexpr std::size_t kLeastShare = 256;

std::vector<bool> disk_choice(const SwapProblem& problem, const std::vector<int>& offloaded, std::size_t host_bytes) {
  std::vector<bool> forced;
  std::size_t all = problem.host.empty() ? 0 : *std::max_element(problem.host.begin(), problem.host.end());
  for (int number : offloaded) {
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(number)];
    forced.push_back(candidate.placement == Placement::disk);
    all += candidate.host_bytes;
  }
  return problem.has_disk && all > host_bytes ? choose_disk(problem, offloaded, host_bytes) : forced;
}

std::size_t host_bytes_of(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  std::vector<std::size_t> load(problem.seconds.size() + 1, 0), passing(problem.seconds.size() + 1, 0);
  std::copy(problem.host.begin(), problem.host.end(), load.begin());
  for (const Decision& decision : decisions) {
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(decision.candidate)];
    const StepIndex out = candidate.stretch.after + 1;
    for (StepIndex place = out; place <= decision.in; ++place) {
      if (decision.on_disk && place > decision.disk_out && place < decision.disk_in) continue;
      const bool goes = decision.on_disk && place == out && place == decision.disk_out;
      const bool comes = decision.on_disk && place == decision.in && place == decision.disk_in;
      std::size_t& most = passing[static_cast<std::size_t>(place)];
      if (goes || comes) most = std::max(most, candidate.host_bytes);
      if (!goes && !comes) load[static_cast<std::size_t>(place)] += candidate.host_bytes;
    }
  }
  for (std::size_t place = 0; place < load.size(); ++place) load[place] += passing[place];
  return *std::max_element(load.begin(), load.end());
}

/// Times the offloads, beginning with these times of the steps, and again by what comes of it.
OffloadPlan timed(const SwapProblem& problem, const TierCapacity& capacity, const std::vector<int>& offloaded,
                  std::vector<StepTime> times, int timings) {
  const std::vector<bool> on_disk = disk_choice(problem, offloaded, capacity.host);
  OffloadPlan best{.offloaded = offloaded, .decisions = {}, .simulation = {}};
  for (int i = 0; i < timings; ++i) {
    auto decisions = time_offloads(problem, offloaded, on_disk, times, capacity.device, capacity.host);
    RelaxedSimulation simulation = simulate_relaxed(problem, decisions, capacity.device);
    times = simulation.steps;
    if (i > 0 && simulation.seconds >= best.simulation.seconds) continue;
    best.decisions = std::move(decisions);
    best.simulation = std::move(simulation);
  }
  best.host_bytes = host_bytes_of(problem, best.decisions);
  return best;
}

std::size_t host_excess(const TierCapacity& capacity, const OffloadPlan& plan) {
  return plan.host_bytes - std::min(plan.host_bytes, capacity.host);
}

double cost(const SwapProblem& problem, const OffloadPlan& plan) {
  double copies = 0;
  for (int number : plan.offloaded) {
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(number)];
    copies += candidate.out_seconds + candidate.in_seconds;
  }
  return plan.simulation.seconds + kCostOfCopying * copies;
}

bool is_better(const SwapProblem& problem, const TierCapacity& capacity, const OffloadPlan& a, const OffloadPlan& b) {
  const std::size_t excess_a = host_excess(capacity, a), excess_b = host_excess(capacity, b);
  if (excess_a != excess_b) return excess_a < excess_b;
  return cost(problem, a) < cost(problem, b) * (1 - 1e-9);
}

bool is_as_good(const TierCapacity& capacity, const OffloadPlan& plan, double seconds) {
  return host_excess(capacity, plan) == 0 && plan.simulation.seconds <= seconds;
}

/// Goes from one plan to a better one as long as a small change makes it better.
class OffloadSearch {
 public:
  OffloadSearch(const SwapProblem& problem, const TierCapacity& capacity, OffloadPlan start, std::size_t least_bytes,
                const std::function<void()>& check)
      : problem_(problem),
        repair_(problem),
        capacity_(capacity),
        best_(std::move(start)),
        most_device_bytes_(std::max(capacity.device, device_bytes_with(best_.offloaded))),
        least_bytes_(least_bytes),
        check_(check) {}

  /// Until the plan is as good as that, or nothing makes it better.
  OffloadPlan search(double good_enough) {
    while (!best_.offloaded.empty() && trials_ > 0 && !is_as_good(capacity_, best_, good_enough) && improve()) {
    }
    return std::move(best_);
  }

 private:
  bool improve() {
    const std::vector<int> offloaded = best_.offloaded;
    for (int number : offloaded) {
      if (change(-1, number)) return true;
    }
    for (int other = 0; other < static_cast<int>(problem_.candidates.size()); ++other) {
      if (!contains(offloaded, other) && change(other, -1)) return true;
    }
    for (int number : offloaded) {
      for (int other = 0; other < static_cast<int>(problem_.candidates.size()); ++other) {
        if (!contains(offloaded, other) && change(other, number)) return true;
      }
    }
    return false;
  }

  const OffloadCandidate& candidate(int number) const { return problem_.candidates[static_cast<std::size_t>(number)]; }
  static bool contains(const std::vector<int>& sorted, int number) {
    return std::binary_search(sorted.begin(), sorted.end(), number);
  }

  bool change(int wanted, int unwanted) {
    if (trials_ <= 0) return false;
    if (wanted >= 0 && candidate(wanted).bytes < least_bytes_) return false;
    if (unwanted >= 0 && candidate(unwanted).placement != Placement::automatic) return false;
    if (unwanted >= 0 && wanted >= 0 && candidate(unwanted).bytes < least_bytes_) return false;
    --trials_;
    if (check_) check_();
    std::vector<int> offloaded = repair_.repaired(capacity_.device, best_.offloaded, wanted, unwanted);
    if (offloaded == best_.offloaded || device_bytes_with(offloaded) > most_device_bytes_) return false;
    OffloadPlan plan = timed(problem_, capacity_, offloaded, best_.simulation.steps, 1);
    if (!is_better(problem_, capacity_, plan, best_)) return false;
    best_ = std::move(plan);
    return true;
  }

  /// At the fullest step.
  std::size_t device_bytes_with(const std::vector<int>& offloaded) const {
    std::vector<std::size_t> change(problem_.device.size() + 1, 0);
    for (int number : offloaded) {
      const OffloadCandidate& candidate = problem_.candidates[static_cast<std::size_t>(number)];
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

  const SwapProblem& problem_;
  OffloadRepair repair_;
  TierCapacity capacity_;
  OffloadPlan best_;
  std::size_t most_device_bytes_;
  std::size_t least_bytes_;  // of a candidate that is worth a trial
  const std::function<void()>& check_;
  int trials_ = kMostTrials;
};

/// Too little to be worth a trial.
std::size_t least_bytes(const SwapProblem& problem, std::size_t device_bytes) {
  const std::size_t most = problem.device.empty() ? 0 : *std::max_element(problem.device.begin(), problem.device.end());
  return (most - std::min(most, device_bytes)) / kLeastShare;
}

/// What is idle first, until the fullest step has no more than `device_bytes`: its copies are over the soonest.
std::vector<int> earliest_offloads(const SwapProblem& problem, std::size_t device_bytes) {
  if (problem.device.empty()) return {};
  const auto fullest = std::max_element(problem.device.begin(), problem.device.end());
  const auto step = static_cast<StepIndex>(fullest - problem.device.begin());
  std::vector<std::pair<StepIndex, int>> across;
  for (std::size_t i = 0; i < problem.candidates.size(); ++i) {
    const OffloadCandidate& candidate = problem.candidates[i];
    const bool is_large = candidate.bytes > least_bytes(problem, device_bytes);
    if (is_large && candidate.stretch.after < step && step < candidate.stretch.before) {
      across.emplace_back(candidate.stretch.after, static_cast<int>(i));
    }
  }
  std::sort(across.begin(), across.end());
  std::vector<int> taken;
  std::size_t load = *fullest;
  for (const auto& [after, number] : across) {
    if (load <= device_bytes) break;
    load -= problem.candidates[static_cast<std::size_t>(number)].bytes;
    taken.push_back(number);
  }
  return OffloadRepair(problem).repaired(device_bytes, taken);
}

}  // namespace

OffloadPlan plan_offloads(const SwapProblem& problem, const TierCapacity& capacity, const std::vector<int>& offloaded) {
  return timed(problem, capacity, offloaded, times_without_waits(problem), kRetimings);
}

OffloadPlan search_offloads(const SwapProblem& problem, const TierCapacity& capacity, std::size_t slack,
                            const std::function<void()>& check) {
  std::vector<OffloadPlan> starts = {plan_offloads(problem, capacity, choose_offloads(problem, capacity.device))};
  if (problem.carrier == CopyCarrier::threads && !starts[0].offloaded.empty()) {
    starts.push_back(plan_offloads(problem, capacity, earliest_offloads(problem, capacity.device)));
    for (int i = 1; i <= kMostSlack; ++i) {
      if (check) check();
      const std::size_t less = capacity.device - std::min(capacity.device, static_cast<std::size_t>(i) * slack);
      starts.push_back(plan_offloads(problem, capacity, choose_offloads(problem, less)));
    }
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [&](const OffloadPlan& a, const OffloadPlan& b) { return is_better(problem, capacity, a, b); });
  OffloadPlan best = starts[0];
  // Another plan is not worth a search then.
  const double good_enough = least_seconds(problem, capacity.device) * (1 + kNothing);
  for (std::size_t i = 0; i < std::min(kSearches, starts.size()); ++i) {
    if (is_as_good(capacity, best, good_enough)) break;
    OffloadPlan plan =
        OffloadSearch(problem, capacity, std::move(starts[i]), least_bytes(problem, capacity.device), check)
            .search(good_enough);
    if (is_better(problem, capacity, plan, best)) best = std::move(plan);
  }
  return best;
}

}  // namespace sectionflow

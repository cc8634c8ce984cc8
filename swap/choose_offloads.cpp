#include "swap/choose_offloads.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace sectionflow {
namespace {

/// Covers what `load` has above `limit`: takes covers of the best ratio of covered excess and cost, until nothing more
/// is gained, and gives back those that turn out to be needless, the costliest first. `taken` ones are there already.
class Covering {
 public:
  Covering(const std::vector<Cover>& covers, std::vector<std::size_t> load, std::size_t limit,
           const std::vector<bool>& taken)
      : covers_(covers), load_(std::move(load)), limit_(limit), taken_(taken) {}

  /// `forced` ones are not given back.
  std::vector<bool> solve(const std::vector<bool>& forced) {
    take_best();
    give_back(forced);
    return taken_;
  }

 private:
  struct Bid {
    double ratio = 0;
    std::size_t cover = 0;
    bool operator<(const Bid& other) const { return ratio != other.ratio ? ratio < other.ratio : cover > other.cover; }
  };

  /// Excess bytes times steps, by cost.
  double ratio(std::size_t i) const {
    double covered = 0;
    for (auto step = std::lower_bound(overfull_.begin(), overfull_.end(), covers_[i].first);
         step != overfull_.end() && *step < covers_[i].last; ++step) {
      const std::size_t load = load_[static_cast<std::size_t>(*step)];
      if (load > limit_) covered += static_cast<double>(std::min(covers_[i].bytes, load - limit_));
    }
    return covered / covers_[i].cost;
  }

  void take_best() {
    for (std::size_t step = 0; step < load_.size(); ++step) {
      if (load_[step] > limit_) overfull_.push_back(static_cast<StepIndex>(step));
    }
    if (overfull_.empty()) return;
    std::priority_queue<Bid> bids;
    for (std::size_t i = 0; i < covers_.size(); ++i) {
      if (taken_[i]) continue;
      if (const double first = ratio(i); first > 0) bids.push({first, i});
    }
    // Gains only fall: the best bid that is still true is the best of all.
    while (!bids.empty()) {
      const Bid best = bids.top();
      bids.pop();
      const double now = ratio(best.cover);
      if (now <= 0) continue;
      if (now < best.ratio) {
        bids.push({now, best.cover});
        continue;
      }
      taken_[best.cover] = true;
      change(best.cover, false);
    }
  }

  void give_back(const std::vector<bool>& forced) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < covers_.size(); ++i) {
      if (taken_[i] && !forced[i]) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return covers_[a].cost > covers_[b].cost; });
    for (std::size_t i : order) {
      bool needed = false;
      for (StepIndex step = covers_[i].first; step < covers_[i].last && !needed; ++step) {
        needed = load_[static_cast<std::size_t>(step)] + covers_[i].bytes > limit_;
      }
      if (needed) continue;
      taken_[i] = false;
      change(i, true);
    }
  }

  void change(std::size_t i, bool add) {
    for (StepIndex step = covers_[i].first; step < covers_[i].last; ++step) {
      std::size_t& load = load_[static_cast<std::size_t>(step)];
      load = add ? load + covers_[i].bytes : load - std::min(load, covers_[i].bytes);
    }
  }

  const std::vector<Cover>& covers_;
  std::vector<std::size_t> load_;
  std::size_t limit_;
  std::vector<bool> taken_;
  std::vector<StepIndex> overfull_;  // at the start; the load only falls while covers are taken
};

/// What an offload costs: its copies, and once more what of them its stretch has no time for.
double cost_of(const SwapProblem& problem, const OffloadCandidate& candidate, const std::vector<double>& start) {
  const double copies = candidate.out_seconds + candidate.in_seconds;
  if (problem.carrier == CopyCarrier::team) return copies;
  const double idle = start[static_cast<std::size_t>(candidate.stretch.before)] -
                      start[static_cast<std::size_t>(candidate.stretch.after + 1)];
  return copies + 4 * std::max(0.0, copies - idle);
}

std::vector<double> starts(const SwapProblem& problem) {
  std::vector<double> start{0};
  for (double seconds : problem.seconds) start.push_back(start.back() + seconds);
  return start;
}

/// What goes to the disk passes through the host, at one place one after the other: where that needs more room than
/// `passing` has so far, it is counted there and in the load. Whether there was such a place.
bool count_passing(const SwapProblem& problem, const std::vector<int>& offloaded, const std::vector<bool>& on_disk,
                   std::vector<std::size_t>& passing, std::vector<std::size_t>& load) {
  bool is_more = false;
  for (std::size_t i = 0; i < offloaded.size(); ++i) {
    if (!on_disk[i]) continue;
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(offloaded[i])];
    for (StepIndex place : {candidate.stretch.after + 1, candidate.stretch.before}) {
      std::size_t& most = passing[static_cast<std::size_t>(place)];
      if (candidate.host_bytes <= most) continue;
      load[static_cast<std::size_t>(place)] += candidate.host_bytes - most;
      most = candidate.host_bytes;
      is_more = true;
    }
  }
  return is_more;
}

}  // namespace

OffloadRepair::OffloadRepair(const SwapProblem& problem) : problem_(problem) {
  const std::vector<double> start = starts(problem);
  covers_.reserve(problem.candidates.size());
  for (const OffloadCandidate& candidate : problem.candidates) {
    covers_.push_back(
        {candidate.stretch.after + 1, candidate.stretch.before, candidate.bytes, cost_of(problem, candidate, start)});
  }
}

std::vector<int> OffloadRepair::repaired(std::size_t device_bytes, const std::vector<int>& offloaded, int wanted,
                                         int unwanted) const {
  std::vector<Cover> covers = covers_;
  if (unwanted >= 0) covers[static_cast<std::size_t>(unwanted)].last = covers[static_cast<std::size_t>(unwanted)].first;
  std::vector<bool> taken(covers.size(), false), forced(covers.size(), false);
  for (int number : offloaded) taken[static_cast<std::size_t>(number)] = true;
  if (unwanted >= 0) taken[static_cast<std::size_t>(unwanted)] = false;
  // What begins and ends to be away at a step, then what is away there.
  std::vector<std::size_t> away(problem_.device.size() + 1, 0);
  for (std::size_t i = 0; i < covers.size(); ++i) {
    forced[i] = problem_.candidates[i].placement != Placement::automatic || static_cast<int>(i) == wanted;
    if (forced[i]) taken[i] = true;
    if (!taken[i]) continue;
    away[static_cast<std::size_t>(covers[i].first)] += covers[i].bytes;
    away[static_cast<std::size_t>(covers[i].last)] -= covers[i].bytes;
  }
  std::partial_sum(away.begin(), away.end(), away.begin());
  std::vector<std::size_t> load = problem_.device;
  for (std::size_t step = 0; step < load.size(); ++step) load[step] -= away[step];
  const std::vector<bool> chosen = Covering(covers, std::move(load), device_bytes, taken).solve(forced);
  std::vector<int> result;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i]) result.push_back(static_cast<int>(i));
  }
  return result;
}

std::vector<int> choose_offloads(const SwapProblem& problem, std::size_t device_bytes) {
  return OffloadRepair(problem).repaired(device_bytes, {});
}

std::size_t least_device_bytes(const SwapProblem& problem) {
  std::vector<std::size_t> load = problem.device;
  for (const OffloadCandidate& candidate : problem.candidates) {
    for (StepIndex step = candidate.stretch.after + 1; step < candidate.stretch.before; ++step) {
      load[static_cast<std::size_t>(step)] -= candidate.bytes;
    }
  }
  return load.empty() ? 0 : *std::max_element(load.begin(), load.end());
}

std::vector<bool> choose_disk(const SwapProblem& problem, const std::vector<int>& offloaded, std::size_t host_bytes) {
  std::vector<Cover> covers;
  std::vector<bool> forced;
  // Between the steps after and before, copies included, an offloaded value is in host memory: places stand for
  // "before step".
  std::vector<std::size_t> load(problem.seconds.size() + 1, 0), passing(problem.seconds.size() + 1, 0);
  for (std::size_t step = 0; step < problem.host.size(); ++step) {
    load[step] = std::max(load[step], problem.host[step]);
    load[step + 1] = std::max(load[step + 1], problem.host[step]);
  }
  for (int number : offloaded) {
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(number)];
    const StepIndex out = candidate.stretch.after + 1, end = candidate.stretch.before + 1;
    const bool may_go = candidate.placement != Placement::host && problem.has_disk;
    covers.push_back(
        {out, may_go ? end : out, candidate.host_bytes, candidate.disk_out_seconds + candidate.disk_in_seconds});
    forced.push_back(candidate.placement == Placement::disk);
    for (StepIndex place = out; place < end && !forced.back(); ++place) {
      load[static_cast<std::size_t>(place)] += candidate.host_bytes;
    }
  }
  std::vector<bool> chosen;
  do {
    chosen = Covering(covers, load, host_bytes, forced).solve(forced);
  } while (count_passing(problem, offloaded, chosen, passing, load));
  return chosen;
}

}  // namespace sectionflow

#include "swap/time_offloads.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace sectionflow {
namespace {

/// Bytes that are still free, by step or by place.
class Capacity {
 public:
  Capacity(const std::vector<std::size_t>& load, std::size_t limit) {
    for (std::size_t bytes : load)
      free_.push_back(static_cast<std::ptrdiff_t>(limit) - static_cast<std::ptrdiff_t>(bytes));
  }

  void give(StepIndex first, StepIndex last, std::size_t bytes) {
    for (StepIndex i = first; i < last; ++i) free_[static_cast<std::size_t>(i)] += static_cast<std::ptrdiff_t>(bytes);
  }
  void take(StepIndex first, StepIndex last, std::size_t bytes) {
    for (StepIndex i = first; i < last; ++i) free_[static_cast<std::size_t>(i)] -= static_cast<std::ptrdiff_t>(bytes);
  }
  /// How far from `first`, at most to `last`, there is room.
  StepIndex end_of_capacity(StepIndex first, StepIndex last, std::size_t bytes) const {
    while (first < last && fits(first, bytes)) ++first;
    return first;
  }
  /// How far back from `last`, at most to `first`, there is room.
  StepIndex begin_of_capacity(StepIndex first, StepIndex last, std::size_t bytes) const {
    while (last > first && fits(last - 1, bytes)) --last;
    return last;
  }

 private:
  bool fits(StepIndex i, std::size_t bytes) const {
    return free_[static_cast<std::size_t>(i)] >= static_cast<std::ptrdiff_t>(bytes);
  }
  std::vector<std::ptrdiff_t> free_;
};

/// Free bytes of the host by place. Offloads that come to the host and leave it at one place take turns: they need the
/// bytes of the largest of them.
class HostCapacity : public Capacity {
 public:
  using Capacity::Capacity;

  void pass(StepIndex place, std::size_t bytes) {
    const std::size_t most = most_passing(place);
    passing_[place].insert(bytes);
    take(place, place + 1, most_passing(place) - most);
  }
  void pass_no_more(StepIndex place, std::size_t bytes) {
    const std::size_t most = most_passing(place);
    passing_[place].erase(passing_[place].find(bytes));
    give(place, place + 1, most - most_passing(place));
  }
  /// Lets one that passes stay, where there is room for it beside the others.
  bool stay(StepIndex place, std::size_t bytes) {
    pass_no_more(place, bytes);
    const bool stays = end_of_capacity(place, place + 1, bytes) > place;
    if (stays) take(place, place + 1, bytes);
    if (!stays) pass(place, bytes);
    return stays;
  }
  /// The first place in [first, last) with room for one that passes; `last` where none has.
  StepIndex first_to_pass(StepIndex first, StepIndex last, std::size_t bytes) const {
    const auto has_capacity = [&](StepIndex place) {
      const std::size_t most = most_passing(place);
      return bytes <= most || end_of_capacity(place, place + 1, bytes - most) > place;
    };
    while (first < last && !has_capacity(first)) ++first;
    return first;
  }

 private:
  std::size_t most_passing(StepIndex place) const {
    const auto found = passing_.find(place);
    return found == passing_.end() || found->second.empty() ? 0 : *found->second.rbegin();
  }
  std::map<StepIndex, std::multiset<std::size_t>> passing_;
};

class Timing {
 public:
  Timing(const SwapProblem& problem, const std::vector<int>& offloaded, const std::vector<bool>& on_disk,
         const std::vector<StepTime>& times, std::size_t device_bytes, std::size_t host_bytes)
      : problem_(problem), times_(times), device_(problem.device, device_bytes), host_(host_load(problem), host_bytes) {
    for (std::size_t i = 0; i < offloaded.size(); ++i) {
      const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(offloaded[i])];
      const StepIndex out = candidate.stretch.after + 1, in = candidate.stretch.before;
      decisions_.push_back(
          {.candidate = offloaded[i], .on_disk = on_disk[i], .hold = -1, .in = in, .disk_out = out, .disk_in = in});
      device_.give(out, in, candidate.bytes);
      if (!on_disk[i]) host_.take(out, in + 1, candidate.host_bytes);
      if (on_disk[i]) host_.pass(out, candidate.host_bytes);
      if (on_disk[i]) host_.pass(in, candidate.host_bytes);
    }
  }

  std::vector<Decision> decide() {
    time_outs();
    if (problem_.carrier == CopyCarrier::threads) time_ins();
    time_disk_ins();
    return std::move(decisions_);
  }

 private:
  static std::vector<std::size_t> host_load(const SwapProblem& problem) {
    std::vector<std::size_t> load = problem.host;
    load.push_back(0);
    return load;
  }
  const OffloadCandidate& candidate_of(const Decision& decision) const {
    return problem_.candidates[static_cast<std::size_t>(decision.candidate)];
  }
  /// When what is issued before a step can begin.
  double issue_time(StepIndex place) const { return place == 0 ? 0 : times_[static_cast<std::size_t>(place - 1)].end; }
  double start_of(StepIndex step) const { return times_[static_cast<std::size_t>(step)].start; }

  template <class Key>
  std::vector<std::size_t> in_order_of(const Key& key) const {
    std::vector<std::size_t> order(decisions_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(decisions_[a]) < key(decisions_[b]); });
    return order;
  }
  /// The first place in [first, last] that is not issued before `time`.
  StepIndex place_from(double time, StepIndex first, StepIndex last) const {
    while (first < last && issue_time(first) < time) ++first;
    return first;
  }
  /// The first step in [first, last] that does not start before `time`, but for rounding.
  StepIndex step_from(double time, StepIndex first, StepIndex last) const {
    while (first < last && start_of(first) < time * (1 - 1e-9)) ++first;
    return first;
  }
  /// The last place in [first, last] that is issued by `time`; `first` where none is.
  StepIndex place_by(double time, StepIndex first, StepIndex last) const {
    while (last > first && issue_time(last) > time) --last;
    return last;
  }

  /// Copies out queue as they are issued; what they free is not given away before they are expected to be over. Writes
  /// to disk follow when their lane is free.
  void time_outs() {
    double link_free = 0, disk_free = 0;
    const bool threads = problem_.carrier == CopyCarrier::threads;
    for (std::size_t i : in_order_of([&](const Decision& d) { return candidate_of(d).stretch.after; })) {
      Decision& decision = decisions_[i];
      const OffloadCandidate& candidate = candidate_of(decision);
      const StepIndex out = candidate.stretch.after + 1, last = candidate.stretch.before;
      double over = issue_time(out);
      if (threads) {
        over = link_free = std::max(link_free, over) + candidate.out_seconds;
        const StepIndex wanted = step_from(over, out, last);
        const StepIndex hold = device_.end_of_capacity(out, wanted, candidate.bytes);
        device_.take(out, hold, candidate.bytes);
        if (hold > out) decision.hold = hold;
      }
      if (!decision.on_disk) continue;
      const double begin = std::max(over, disk_free);
      disk_free = begin + candidate.disk_out_seconds;
      const StepIndex wanted = place_from(begin, out, last);
      const StepIndex end = host_.end_of_capacity(out + 1, wanted + 1, candidate.host_bytes);
      if (end == out + 1 || !host_.stay(out, candidate.host_bytes)) continue;
      host_.take(out + 1, end, candidate.host_bytes);
      decision.disk_out = end - 1;
    }
  }

  /// Backward, as late as the queue allows; then forward, in the order of their readers, where there is room.
  void time_ins() {
    const auto order = in_order_of([&](const Decision& d) { return candidate_of(d).stretch.before; });
    double queue_begins = times_.empty() ? 0 : times_.back().end;
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      Decision& decision = decisions_[*i];
      const OffloadCandidate& candidate = candidate_of(decision);
      queue_begins = std::min(queue_begins, start_of(candidate.stretch.before)) - candidate.in_seconds;
      const StepIndex on_disk = decision.on_disk ? decision.disk_out : 0;
      const StepIndex first = std::max({candidate.earliest_in, decision.hold, on_disk, candidate.stretch.after + 1});
      decision.in = place_by(queue_begins, first, candidate.stretch.before);
    }
    StepIndex queue = 0;
    for (std::size_t i : order) {
      Decision& decision = decisions_[i];
      const OffloadCandidate& candidate = candidate_of(decision);
      const StepIndex last = candidate.stretch.before;
      decision.in = device_.begin_of_capacity(std::clamp(queue, decision.in, last), last, candidate.bytes);
      if (decision.on_disk) {
        host_.pass_no_more(last, candidate.host_bytes);
        decision.in = host_.first_to_pass(decision.in, last, candidate.host_bytes);
        host_.pass(decision.in, candidate.host_bytes);
      }
      device_.take(decision.in, last, candidate.bytes);
      queue = std::max(queue, decision.in);
    }
  }

  void time_disk_ins() {
    double queue_begins = times_.empty() ? 0 : times_.back().end;
    const auto order = in_order_of([&](const Decision& d) { return d.in; });
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      Decision& decision = decisions_[*i];
      if (!decision.on_disk) continue;
      const OffloadCandidate& candidate = candidate_of(decision);
      queue_begins = std::min(queue_begins, issue_time(decision.in)) - candidate.disk_in_seconds;
      decision.disk_in = place_by(queue_begins, std::min(decision.disk_out, decision.in), decision.in);
    }
    StepIndex queue = 0;
    for (std::size_t i : order) {
      Decision& decision = decisions_[i];
      if (!decision.on_disk) continue;
      const OffloadCandidate& candidate = candidate_of(decision);
      const StepIndex wanted = std::clamp(queue, decision.disk_in, decision.in);
      const StepIndex begin = host_.begin_of_capacity(wanted, decision.in, candidate.host_bytes);
      decision.disk_in = decision.in;
      if (begin < decision.in && host_.stay(decision.in, candidate.host_bytes)) {
        host_.take(begin, decision.in, candidate.host_bytes);
        decision.disk_in = begin;
      }
      queue = std::max(queue, decision.disk_in);
    }
  }

  const SwapProblem& problem_;
  const std::vector<StepTime>& times_;
  Capacity device_;
  HostCapacity host_;
  std::vector<Decision> decisions_;
};

}  // namespace

std::vector<Decision> time_offloads(const SwapProblem& problem, const std::vector<int>& offloaded,
                                    const std::vector<bool>& on_disk, const std::vector<StepTime>& times,
                                    std::size_t device_bytes, std::size_t host_bytes) {
  return Timing(problem, offloaded, on_disk, times, device_bytes, host_bytes).decide();
}

std::vector<StepTime> times_without_waits(const SwapProblem& problem) {
  std::vector<StepTime> times;
  double now = 0;
  for (double seconds : problem.seconds) {
    times.push_back({now, now + seconds});
    now += seconds;
  }
  return times;
}

}  // namespace sectionflow

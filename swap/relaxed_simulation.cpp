#include "swap/relaxed_simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

/// A move of one decision's bytes, in the order in which insert_offloads has instructions of one place.
struct Move {
  StepIndex place = 0;
  int turn = 0;
  StepKind kind = StepKind::copy_out;
  std::size_t decision = 0;
};

std::vector<Move> moves_of(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  std::vector<Move> moves;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    const Decision& d = decisions[i];
    const StepIndex out = problem.candidates[static_cast<std::size_t>(d.candidate)].stretch.after + 1;
    const auto add = [&](StepIndex place, StepKind kind, bool both_moves_here) {
      moves.push_back({place, turn_of(kind, both_moves_here), kind, i});
    };
    add(out, StepKind::copy_out, d.on_disk && d.disk_out == out);
    if (d.on_disk) add(d.disk_out, StepKind::disk_write, d.disk_out == out);
    if (d.on_disk) add(d.disk_in, StepKind::disk_read, d.disk_in == d.in);
    add(d.in, StepKind::copy_in, d.on_disk && d.disk_in == d.in);
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.place != b.place ? a.place < b.place : a.turn < b.turn;
  });
  return moves;
}

/// What has been told to leave the device, in the order of the queue: when it is gone.
class Leaving {
 public:
  void add(std::size_t bytes, double gone) {
    sums_.push_back((sums_.empty() ? 0 : sums_.back()) + bytes);
    gone_.push_back(gone);
  }
  /// When no more than `bytes` are left of it.
  double time_of(std::size_t bytes) const {
    if (sums_.empty() || sums_.back() <= bytes) return 0;
    const auto enough = std::lower_bound(sums_.begin(), sums_.end(), sums_.back() - bytes);
    return gone_[static_cast<std::size_t>(enough - sums_.begin())];
  }

 private:
  std::vector<std::size_t> sums_;
  std::vector<double> gone_;
};

/// Bytes on the device at each step.
std::vector<std::size_t> bytes_with(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  std::vector<std::size_t> change(problem.seconds.size() + 1, 0), load = problem.device;
  for (const Decision& decision : decisions) {
    const OffloadCandidate& candidate = problem.candidates[static_cast<std::size_t>(decision.candidate)];
    change[static_cast<std::size_t>(candidate.stretch.after + 1)] += candidate.bytes;
    change[static_cast<std::size_t>(decision.in)] -= candidate.bytes;
  }
  std::size_t away = 0;  // what is less than nothing at its own turn of the sum wraps around, and back
  for (std::size_t step = 0; step < load.size(); ++step) {
    away += change[step];
    load[step] -= std::min(load[step], away);
  }
  return load;
}

/// Lane by lane.
class Lanes {
 public:
  Lanes(const SwapProblem& problem, const std::vector<Decision>& decisions, std::size_t device_bytes)
      : problem_(problem),
        decisions_(decisions),
        there_(decisions.size(), 0),
        wanted_(problem.seconds.size() + 1, 0),
        threads_(problem.carrier == CopyCarrier::threads) {
    for (std::size_t load : bytes_with(problem, decisions))
      capacity_.push_back(device_bytes - std::min(device_bytes, load));
    capacity_.push_back(device_bytes);
  }

  void move(const Move& move) {
    const Decision& decision = decisions_[move.decision];
    const OffloadCandidate& candidate = problem_.candidates[static_cast<std::size_t>(decision.candidate)];
    // When the bytes are where the move finds them.
    double& there = there_[move.decision];
    switch (move.kind) {
      case StepKind::copy_out:
        there = carry(threads_ ? link_out_ : compute_, there, candidate.out_seconds);
        if (threads_) leaving_.add(candidate.bytes, there);
        delay_ += candidate.drag_seconds;
        break;
      case StepKind::copy_in: {
        if (threads_) there = std::max(there, time_of_capacity(decision.in));
        there = carry(threads_ ? link_in_ : compute_, there, candidate.in_seconds);
        delay_ += candidate.drag_seconds;
        double& wanted = wanted_[static_cast<std::size_t>(candidate.stretch.before)];
        wanted = std::max(wanted, there);
        break;
      }
      case StepKind::disk_write:
        there = carry(disk_out_, there, candidate.disk_out_seconds);
        break;
      default:
        there = carry(disk_in_, there, candidate.disk_in_seconds);
    }
  }

  StepTime step(StepIndex step) {
    const double start = std::max(
        {compute_ + std::exchange(delay_, 0), wanted_[static_cast<std::size_t>(step)], time_of_capacity(step)});
    compute_ = start + problem_.seconds[static_cast<std::size_t>(step)];
    return {start, compute_};
  }

  double end() const { return std::max({compute_ + delay_, link_out_, link_in_, disk_out_, disk_in_}); }

 private:
  double carry(double& lane, double there, double seconds) {
    return lane = std::max({lane, compute_, there}) + seconds;
  }
  /// When enough has left for all that is on the device at a step.
  double time_of_capacity(StepIndex step) const { return leaving_.time_of(capacity_[static_cast<std::size_t>(step)]); }

  const SwapProblem& problem_;
  const std::vector<Decision>& decisions_;
  std::vector<double> there_, wanted_;
  std::vector<std::size_t> capacity_;  // for what is still leaving, by step
  Leaving leaving_;
  bool threads_;
  double delay_ = 0;  // of the next step, by copies that have been issued since the last
  double compute_ = 0, link_out_ = 0, link_in_ = 0, disk_out_ = 0, disk_in_ = 0;
};

}  // namespace

RelaxedSimulation simulate_relaxed(const SwapProblem& problem, const std::vector<Decision>& decisions,
                                   std::size_t device_bytes) {
  RelaxedSimulation simulation;
  simulation.steps.reserve(problem.seconds.size());
  Lanes lanes(problem, decisions, device_bytes);
  const std::vector<Move> moves = moves_of(problem, decisions);
  auto move = moves.begin();
  for (StepIndex step = 0; step <= problem.num_steps(); ++step) {
    for (; move != moves.end() && move->place == step; ++move) lanes.move(*move);
    if (step < problem.num_steps()) simulation.steps.push_back(lanes.step(step));
  }
  simulation.seconds = lanes.end();
  return simulation;
}

double least_seconds(const SwapProblem& problem, std::size_t device_bytes) {
  double total = 0;
  for (double seconds : problem.seconds) total += seconds;
  double begin = total, rate_out = 0, rate_in = 0, drag = std::numeric_limits<double>::infinity(), now = 0,
         least = total;
  std::vector<double> start;
  for (double seconds : problem.seconds) start.push_back(std::exchange(now, now + seconds));
  for (const OffloadCandidate& candidate : problem.candidates) {
    const auto bytes = static_cast<double>(candidate.bytes);
    drag = std::min(drag, candidate.drag_seconds / bytes);
    begin = std::min(begin, start[static_cast<std::size_t>(candidate.stretch.after + 1)]);
    rate_out = std::max(rate_out, bytes / candidate.out_seconds);
    rate_in = std::max(rate_in, bytes / candidate.in_seconds);
  }
  for (std::size_t step = 0; step < problem.device.size(); ++step) {
    if (problem.device[step] <= device_bytes) continue;
    const auto excess = static_cast<double>(problem.device[step] - device_bytes);
    if (rate_out == 0 || rate_in == 0) return least;
    const double out = excess / rate_out, in = excess / rate_in, end = start[step] + problem.seconds[step];
    // Before the step all of it must have left, and behind it all of it must come back.
    const bool threads = problem.carrier == CopyCarrier::threads;
    const double with_threads = std::max(start[step], begin + out) + problem.seconds[step] + std::max(total - end, in);
    least = std::max(least, threads ? std::max(with_threads, total + 2 * excess * drag) : total + out + in);
  }
  return least;
}

}  // namespace sectionflow

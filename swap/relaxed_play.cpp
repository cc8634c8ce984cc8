#include "swap/relaxed_play.h"

#include <algorithm>

namespace sectionflow {
namespace {

/// A move of one decision's bytes, in the order in which insert_rests has lines of one place.
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
    moves.push_back({out, 1, StepKind::copy_out, i});
    if (d.on_disk) moves.push_back({d.disk_out, d.disk_out == out ? 1 : 0, StepKind::disk_write, i});
    if (d.on_disk) moves.push_back({d.disk_in, d.disk_in == d.in ? 3 : 4, StepKind::disk_read, i});
    moves.push_back({d.in, 3, StepKind::copy_in, i});
  }
  std::stable_sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.place != b.place ? a.place < b.place : a.turn < b.turn;
  });
  return moves;
}

/// Lane by lane.
class Lanes {
 public:
  Lanes(const SwapProblem& problem, const std::vector<Decision>& decisions)
      : problem_(problem), decisions_(decisions), there_(decisions.size(), 0), wanted_(problem.seconds.size() + 1, 0) {}

  void move(const Move& move) {
    const Decision& decision = decisions_[move.decision];
    const RestCandidate& candidate = problem_.candidates[static_cast<std::size_t>(decision.candidate)];
    // When the bytes are where the move finds them.
    double& there = there_[move.decision];
    const bool threads = problem_.carrier == CopyCarrier::threads;
    switch (move.kind) {
      case StepKind::copy_out:
        there = carry(threads ? link_out_ : compute_, there, candidate.out_seconds);
        break;
      case StepKind::copy_in: {
        there = carry(threads ? link_in_ : compute_, there, candidate.in_seconds);
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
    const double start = std::max(compute_, wanted_[static_cast<std::size_t>(step)]);
    compute_ = start + problem_.seconds[static_cast<std::size_t>(step)];
    return {start, compute_};
  }

  double end() const { return std::max({compute_, link_out_, link_in_, disk_out_, disk_in_}); }

 private:
  double carry(double& lane, double there, double seconds) {
    return lane = std::max({lane, compute_, there}) + seconds;
  }

  const SwapProblem& problem_;
  const std::vector<Decision>& decisions_;
  std::vector<double> there_, wanted_;
  double compute_ = 0, link_out_ = 0, link_in_ = 0, disk_out_ = 0, disk_in_ = 0;
};

}  // namespace

RelaxedPlay play_relaxed(const SwapProblem& problem, const std::vector<Decision>& decisions) {
  RelaxedPlay play;
  Lanes lanes(problem, decisions);
  const std::vector<Move> moves = moves_of(problem, decisions);
  auto move = moves.begin();
  for (StepIndex step = 0; step <= problem.num_steps(); ++step) {
    for (; move != moves.end() && move->place == step; ++move) lanes.move(*move);
    if (step < problem.num_steps()) play.steps.push_back(lanes.step(step));
  }
  play.seconds = lanes.end();
  return play;
}

}  // namespace sectionflow

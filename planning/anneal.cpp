#include "planning/anneal.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "planning/lane_clock.h"
#include "planning/moves.h"

namespace sectionflow::planning {
namespace {

class Annealer {
 public:
  Annealer(const FlatProblem& problem, const FoundOrder& start, const AnnealOptions& options)
      : options_(options),
        random_(options.seed),
        sequence_(problem, start.order, start.absences),
        moves_(problem, options.order_fixed, options.budget, sequence_, random_),
        best_(start),
        cost_(start.cost),
        peak_(start.peak) {
    double seconds = 0;
    for (const double of_one : problem.seconds) seconds += of_one;
    price_ = options.price * seconds / static_cast<double>(std::max<std::int64_t>(options.budget, 1));
    first_price_ = price_;
    energy_ = energy_of(cost_, peak_);
    if (problem.has_copies()) clock_.emplace(problem, options.link);
  }

  FoundOrder anneal() {
    constexpr std::int64_t kBlock = 512;
    std::int64_t inside = 0;
    for (std::int64_t move = 0; move < options_.moves; ++move) {
      if (move % kBlock == 0) {
        if (options_.check) options_.check();
        follow(inside > kBlock / 2, move);
        inside = 0;
      }
      try_move();
      if (peak_ <= options_.budget) ++inside;
    }
    return std::move(best_);
  }

 private:
  double energy_of(double cost, std::int64_t peak) const {
    return cost + price_ * static_cast<double>(std::max<std::int64_t>(peak - options_.budget, 0));
  }

  /// Every so often: a cooler temperature, a price at which about half of the orders met fit, evenly spaced slots.
  void follow(bool mostly_inside, std::int64_t move) {
    constexpr double kStep = 1.05;
    constexpr int kMostCrowded = 256;
    constexpr std::int64_t kLeastBetweenSpreads = 16384;
    const double share = static_cast<double>(move) / static_cast<double>(options_.moves);
    temperature_ = options_.hot * std::pow(options_.cold / options_.hot, share);
    // An order that never fits must not be paid for with ever more executions.
    if (move > 0)
      price_ = std::clamp(price_ * (mostly_inside ? 1 / kStep : kStep), 0.1 * first_price_, 100 * first_price_);
    energy_ = energy_of(cost_, peak_);
    if (moves_.crowded() > kMostCrowded && move - spread_at_ > kLeastBetweenSpreads) {
      moves_.spread();
      spread_at_ = move;
    }
  }

  void try_move() {
    if (!moves_.propose() || sequence_.is_broken()) return sequence_.undo();
    // The threshold first: what costs too much already need not touch the tree of memory, nor have its copies timed.
    const double most = energy_ - temperature_ * std::log(1 - random_.uniform());
    double cost = sequence_.cost();
    if (cost > most) return sequence_.undo();
    if (energy_of(cost, sequence_.least_peak()) > most) return sequence_.undo();
    const std::int64_t peak = sequence_.peak();
    double energy = energy_of(cost, peak);
    if (energy > most) return sequence_.undo();
    if (clock_) {
      const double of_memory = energy - cost;
      sequence_.order(order_);
      cost = clock_->seconds(order_, std::max(peak, options_.budget), cost, most - of_memory);
      energy = cost + of_memory;
      if (energy > most) return sequence_.undo();
    }
    sequence_.commit();
    cost_ = cost;
    peak_ = peak;
    energy_ = energy;
    if (is_better({{}, cost, peak, {}}, best_, options_.budget))
      best_ = {sequence_.order(), cost, peak, sequence_.absences()};
  }

  const AnnealOptions options_;
  SplitMix random_;
  Sequence sequence_;
  Moves moves_;
  std::optional<LaneClock> clock_;
  std::vector<int> order_;  // as the clock reads it
  FoundOrder best_;
  double cost_, energy_ = 0, price_ = 0, first_price_ = 0, temperature_ = 1;
  std::int64_t peak_, spread_at_ = 0;
};

}  // namespace

bool is_better(const FoundOrder& a, const FoundOrder& b, std::int64_t budget) {
  const std::int64_t over_a = std::max<std::int64_t>(a.peak - budget, 0);
  const std::int64_t over_b = std::max<std::int64_t>(b.peak - budget, 0);
  if (over_a != over_b) return over_a < over_b;
  return a.cost < b.cost;
}

FoundOrder anneal(const FlatProblem& problem, const FoundOrder& start, const AnnealOptions& options) {
  return Annealer(problem, start, options).anneal();
}

}  // namespace sectionflow::planning

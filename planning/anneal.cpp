#include "planning/anneal.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sectionflow::planning {
namespace {

class Annealer {
 public:
  Annealer(const FlatProblem& problem, const FoundOrder& start, const AnnealOptions& options)
      : problem_(problem),
        options_(options),
        random_(options.seed),
        sequence_(problem, start.order, start.absences),
        best_(start),
        cost_(start.cost),
        peak_(start.peak) {
    double seconds = 0;
    for (const double of_one : problem.seconds) seconds += of_one;
    price_ = options.price * seconds / static_cast<double>(std::max<std::int64_t>(options.budget, 1));
    first_price_ = price_;
    energy_ = energy_of(cost_, peak_);
    for (int i = 0; i < problem.num_values(); ++i) {
      if (problem.at_end[pos(i)] != 0) at_end_.push_back(i);
    }
  }

  FoundOrder anneal() {
    constexpr std::int64_t kBlock = 512;
    std::int64_t inside = 0;
    for (std::int64_t move = 0; move < options_.moves; ++move) {
      if (move % kBlock == 0) {
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
    if (crowded_ > kMostCrowded && move - spread_at_ > kLeastBetweenSpreads) {
      sequence_.spread();
      crowded_ = 0;
      spread_at_ = move;
    }
  }

  void try_move() {
    if (!propose() || sequence_.is_broken()) return sequence_.undo();
    // The threshold first: what costs too much already need not touch the tree of memory.
    const double most = energy_ - temperature_ * std::log(1 - random_.uniform());
    const double cost = sequence_.cost();
    if (cost > most) return sequence_.undo();
    const std::int64_t peak = sequence_.peak();
    const double energy = energy_of(cost, peak);
    if (energy > most) return sequence_.undo();
    sequence_.commit();
    cost_ = cost;
    peak_ = peak;
    energy_ = energy;
    if (is_better({{}, cost, peak, {}}, best_, options_.budget))
      best_ = {sequence_.order(), cost, peak, sequence_.absences()};
  }

  bool propose() {
    const int kind = random_.below(16);
    if (kind < 5) return repeat_before_reader();
    if (kind < 8) return take_repeat_away();
    if (kind < 14) return shift();
    return take_repeat_away() && repeat_before_reader();
  }

  /// An empty slot between two neighbours that are taken; -1: there is none.
  int empty_between(int below, int above) {
    if (above - below < 2) {
      ++crowded_;
      return -1;
    }
    return below + 1 + random_.below(above - below - 1);
  }
  int empty_below(int slot) { return empty_between(sequence_.taken_below(slot), slot); }
  int random_taken() { return sequence_.taken()[pos(random_.below(static_cast<int>(sequence_.taken().size())))]; }

  bool may_repeat(int operation) const { return operation >= 0 && problem_.repeatable[pos(operation)] != 0; }

  /// Has a value that is read after a while written anew shortly before, so that it need not stay.
  bool repeat_before_reader() {
    int reader = random_taken();
    int value;
    if (!at_end_.empty() && random_.below(64) == 0) {
      reader = sequence_.num_slots() - 1;
      value = at_end_[pos(random_.below(static_cast<int>(at_end_.size())))];
    } else {
      const std::span<const int> inputs = problem_.inputs_of(sequence_.operation_at(reader));
      if (inputs.empty()) return false;
      value = inputs[pos(random_.below(static_cast<int>(inputs.size())))];
    }
    const int producer = problem_.producer[pos(value)];
    if (!may_repeat(producer)) return false;
    const int used = sequence_.used_before(value, reader);
    if (used >= sequence_.taken_below(reader)) return false;
    if (random_.below(4) == 0) reader = sequence_.taken_above(used + random_.below(reader - used - 1));
    const int slot = empty_below(reader);
    if (slot <= used) return false;
    chance_of_ancestors_ = random_.below(3);
    repeats_left_ = 12;
    repeat(producer, slot, sequence_.taken_below(slot));
    return true;
  }

  /// Whether in that slot something has been executed that ends the executions of `operation`.
  bool is_ended(int operation, int slot) const {
    const std::span<const int> by = problem_.ended_by(operation);
    return std::any_of(by.begin(), by.end(), [&](int other) { return sequence_.executions(other).front() <= slot; });
  }

  /// Executes `operation` in `slot`, and before it, above slot `floor`, some of its ancestors that are not there.
  void repeat(int operation, int slot, int floor) {
    --repeats_left_;
    if (is_ended(operation, slot)) return;
    for (const int input : problem_.inputs_of(operation)) {
      if (chance_of_ancestors_ == 0 || repeats_left_ <= 0) break;
      const int producer = problem_.producer[pos(input)];
      if (!may_repeat(producer)) continue;
      if (sequence_.written_before(input, slot) > floor || sequence_.lives_until(input, slot) > slot) continue;
      if (chance_of_ancestors_ == 1 && random_.below(2) == 0) continue;
      const int earlier = empty_below(slot);
      if (earlier > floor) repeat(producer, earlier, floor);
    }
    sequence_.insert(operation, slot);
  }

  bool may_remove(int operation, int slot) const {
    const bool is_first = sequence_.executions(operation).front() == slot;
    if (is_first &&
        (options_.order_fixed || !problem_.before(operation).empty() || !problem_.after(operation).empty())) {
      return false;
    }
    return sequence_.is_removable(operation, slot);
  }

  bool take_repeat_away() {
    if (sequence_.repeated().empty()) return false;
    const int operation = sequence_.repeated()[pos(random_.below(static_cast<int>(sequence_.repeated().size())))];
    const std::vector<int>& slots = sequence_.executions(operation);
    const int slot = slots[pos(random_.below(static_cast<int>(slots.size())))];
    if (!may_remove(operation, slot)) return false;
    take_away(operation, slot);
    return true;
  }

  /// With executions that served this one alone.
  void take_away(int operation, int slot) {
    sequence_.remove(operation, slot);
    for (const int input : problem_.inputs_of(operation)) {
      const int producer = problem_.producer[pos(input)];
      if (producer < 0 || sequence_.executions(producer).size() < 2) continue;
      // Another of its outputs, read here too, may have taken away its executions before this one.
      if (sequence_.executions(producer).front() >= slot) continue;
      const int written = sequence_.written_before(input, slot);
      if (!sequence_.is_unread(producer, written) || !may_remove(producer, written)) continue;
      if (random_.below(8) > 0) take_away(producer, written);
    }
  }

  /// The slots between which an execution may be, both excluded.
  std::pair<int, int> window(int operation, std::size_t index) const {
    const std::vector<int>& slots = sequence_.executions(operation);
    int low = 0, high = index + 1 < slots.size() ? slots[index + 1] : sequence_.num_slots() - 1;
    const auto first = [&](int other) { return sequence_.executions(other).front(); };
    for (const int other : problem_.ended_by(operation)) high = std::min(high, first(other));
    if (index > 0) return {slots[index - 1], high};
    for (const int other : problem_.ends(operation)) low = std::max(low, sequence_.executions(other).back());
    for (const int input : problem_.inputs_of(operation)) {
      if (problem_.producer[pos(input)] >= 0) low = std::max(low, first(problem_.producer[pos(input)]));
    }
    for (const int output : problem_.outputs_of(operation)) {
      const std::vector<int>& readers = sequence_.readers(output);
      if (!readers.empty()) high = std::min(high, readers.front());
    }
    for (const int other : problem_.before(operation)) low = std::max(low, first(other));
    for (const int other : problem_.after(operation)) high = std::min(high, first(other));
    if (options_.order_fixed) {
      if (operation > 0) low = std::max(low, first(operation - 1));
      if (operation + 1 < problem_.num_operations()) high = std::min(high, first(operation + 1));
    }
    return {low, high};
  }

  /// A few neighbours on, or anywhere where it may be.
  bool shift() {
    const int slot = random_taken();
    const int operation = sequence_.operation_at(slot);
    const std::vector<int>& slots = sequence_.executions(operation);
    std::size_t index = 0;
    while (slots[index] != slot) ++index;
    const auto [low, high] = window(operation, index);
    const int below = sequence_.taken_below(slot), above = sequence_.taken_above(slot);
    if (low >= below && high <= above) return false;
    int next;  // the neighbour before which it goes
    if (random_.below(2) == 0) {
      const int steps = 1 + random_.below(3);
      const bool down = random_.below(2) == 0;
      next = down ? slot : above;
      for (int i = 0; i < steps; ++i) next = down ? sequence_.taken_below(next) : sequence_.taken_above(next);
      if (next <= low || next > high) return false;
    } else {
      next = sequence_.taken_above(low + random_.below(high - low - 1));
    }
    if (next == slot || next == above) return false;
    const int target = empty_below(next);
    if (target < 0) return false;
    sequence_.insert(operation, target);
    sequence_.remove(operation, slot);
    return true;
  }

  const FlatProblem& problem_;
  const AnnealOptions options_;
  SplitMix random_;
  Sequence sequence_;
  FoundOrder best_;
  double cost_, energy_ = 0, price_ = 0, first_price_ = 0, temperature_ = 1;
  std::int64_t peak_, spread_at_ = 0;
  int crowded_ = 0, chance_of_ancestors_ = 0, repeats_left_ = 0;
  std::vector<int> at_end_;
};

}  // namespace

std::uint64_t SplitMix::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

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

#include "planning/evict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"

namespace sectionflow::planning {
namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();

/// One walk through the given order.
class Walk {
 public:
  Walk(const FlatProblem& problem, std::int64_t budget, const EvictWeights& weights, std::span<const std::uint8_t> kept)
      : problem_(problem), budget_(budget), weights_(weights), kept_(kept) {
    const auto values = pos(problem.num_values());
    readers_.resize(values);
    for (int v = 0; v < problem.num_operations(); ++v) {
      for (const int input : problem.inputs_of(v)) readers_[pos(input)].push_back(v);
      log_distance_.push_back(std::log(v + 1.0));
    }
    log_distance_.push_back(std::log(problem.num_operations() + 1.0));
    next_reader_.assign(values, 0);
    place_.assign(values, -1);
    is_ended_.assign(pos(problem.num_operations()), 0);
    pins_.assign(values, 0);
    chain_.assign(values, 0);
    log_chain_.assign(values, {-1, 0});
    for (std::size_t i = 0; i < values; ++i) {
      if (problem.at_end[i] != 0) readers_[i].push_back(problem.num_operations());
      log_bytes_.push_back(std::log(static_cast<double>(std::max<std::int64_t>(problem.bytes[i], 1))));
      if (problem.producer[i] < 0) make_resident(static_cast<int>(i));
    }
  }

  std::optional<std::vector<int>> orders() {
    const std::size_t most = 12 * pos(problem_.num_operations()) + 64;
    for (now_ = 0; now_ <= problem_.num_operations(); ++now_) {
      if (now_ < problem_.num_operations()) {
        push(now_);
      } else {
        push_end();
      }
      while (!stack_.empty()) {
        const int missing = missing_input(stack_.back());
        if (missing >= 0) {
          push(missing);
        } else {
          execute_last();
        }
        if (order_.size() > most) return std::nullopt;
      }
    }
    return std::move(order_);
  }

 private:
  void make_resident(int value) {
    place_[pos(value)] = static_cast<int>(resident_.size());
    resident_.push_back(value);
    used_ += problem_.bytes[pos(value)];
  }

  void push(int operation) {
    for (const int input : problem_.inputs_of(operation)) ++pins_[pos(input)];
    stack_.push_back(operation);
  }
  /// What the end needs is there again at the end: producers of those values that are not resident.
  void push_end() {
    for (int i = 0; i < problem_.num_values(); ++i) {
      if (problem_.at_end[pos(i)] == 0) continue;
      ++pins_[pos(i)];
      if (place_[pos(i)] < 0) push(problem_.producer[pos(i)]);
    }
  }

  /// The producer of the first input that is not resident; -1: none.
  int missing_input(int operation) const {
    for (const int input : problem_.inputs_of(operation)) {
      if (place_[pos(input)] < 0) return problem_.producer[pos(input)];
    }
    return -1;
  }

  void execute_last() {
    const int operation = stack_.back();
    stack_.pop_back();
    std::int64_t wanted = problem_.workspace[pos(operation)];
    for (const int output : problem_.outputs_of(operation)) {
      ++pins_[pos(output)];
      if (place_[pos(output)] < 0) wanted += problem_.bytes[pos(output)];
    }
    wanted -= find_overwritten(operation, false);
    while (used_ + wanted > budget_ && evict_one()) {
    }
    if (used_ + wanted > budget_) find_overwritten(operation, true);
    for (const int output : problem_.outputs_of(operation)) {
      --pins_[pos(output)];
      if (place_[pos(output)] < 0) make_resident(output);
    }
    for (const int input : problem_.inputs_of(operation)) --pins_[pos(input)];
    for (const int input : overwritten_) drop(input);
    for (const int other : problem_.ends(operation)) is_ended_[pos(other)] = 1;
    order_.push_back(operation);
  }

  /// Inputs that outputs are written over: nothing else wants them now; nor later, unless they `may_come_back`. The
  /// bytes that saves.
  std::int64_t find_overwritten(int operation, bool may_come_back) {
    overwritten_.clear();
    std::vector<int> written;
    std::int64_t bytes = 0;
    for (const auto& [input, output] : problem_.overwrites_of(operation)) {
      const bool is_gone = !is_read_behind(input, operation) || (may_come_back && chain(input) < kNever);
      const bool is_free = pins_[pos(input)] == 1 && place_[pos(input)] >= 0 && place_[pos(output)] < 0 && is_gone;
      const bool is_taken = std::ranges::count(overwritten_, input) > 0 || std::ranges::count(written, output) > 0;
      if (!is_free || is_taken) continue;
      overwritten_.push_back(input);
      written.push_back(output);
      bytes += problem_.bytes[pos(output)];
    }
    return bytes;
  }
  /// Whether the given order reads a value after an execution of `operation`, the present one or one again before it.
  bool is_read_behind(int value, int operation) {
    const int next = next_reader(value);
    return next >= 0 && (operation != now_ || readers_[pos(value)].back() != now_);
  }

  /// The next operation of the given order, from the present one on, that reads the value; -1: none.
  int next_reader(int value) {
    const std::vector<int>& readers = readers_[pos(value)];
    std::size_t& next = next_reader_[pos(value)];
    while (next < readers.size() && readers[next] < now_) ++next;
    return next < readers.size() ? readers[next] : -1;
  }

  double chain(int value) const {
    const int producer = problem_.producer[pos(value)];
    if (producer < 0 || problem_.repeatable[pos(producer)] == 0 || is_ended_[pos(producer)] != 0) return kNever;
    double seconds = problem_.seconds_again[pos(producer)];
    for (const int input : problem_.inputs_of(producer)) {
      if (place_[pos(input)] < 0) seconds += chain_[pos(input)];
    }
    return seconds;
  }

  /// Chains seldom change between two looks at them.
  double log_of_chain(int value, double seconds) {
    if (weights_.cost == 0) return 0;
    auto& [of, log] = log_chain_[pos(value)];
    if (of != seconds) {
      of = seconds;
      log = std::log(seconds + 1e-30);
    }
    return log;
  }

  /// Least first. What nothing reads any more goes before all else, the largest first.
  double score(int value) {
    const int next = next_reader(value);
    const double seconds = chain(value);
    if (next < 0 && (seconds < kNever || problem_.at_end[pos(value)] == 0)) return -1e6 - log_bytes_[pos(value)];
    if (seconds == kNever) return kNever;
    const double of_kept = !kept_.empty() && kept_[pos(value)] != 0 ? 1e3 : 0;
    return of_kept + weights_.cost * log_of_chain(value, seconds) - weights_.size * log_bytes_[pos(value)] -
           weights_.reach * log_distance_[pos(next - now_)];
  }

  bool evict_one() {
    int worst = -1;
    double least = kNever;
    for (const int value : resident_) {
      if (pins_[pos(value)] > 0 || problem_.bytes[pos(value)] == 0) continue;
      const double its = score(value);
      if (its < least || (its == least && its < kNever && value < worst)) {
        least = its;
        worst = value;
      }
    }
    if (worst < 0) return false;
    drop(worst);
    return true;
  }

  void drop(int value) {
    chain_[pos(value)] = chain(value);
    const int place = place_[pos(value)];
    resident_[pos(place)] = resident_.back();
    place_[pos(resident_.back())] = place;
    resident_.pop_back();
    place_[pos(value)] = -1;
    used_ -= problem_.bytes[pos(value)];
  }

  const FlatProblem& problem_;
  const std::int64_t budget_;
  const EvictWeights weights_;
  const std::span<const std::uint8_t> kept_;
  std::vector<std::vector<int>> readers_;
  std::vector<std::size_t> next_reader_;
  std::vector<int> resident_, place_, pins_, stack_, order_, overwritten_;
  std::vector<std::uint8_t> is_ended_;  // operations that may not be executed any more
  std::vector<double> chain_, log_bytes_, log_distance_;
  std::vector<std::pair<double, double>> log_chain_;  // of each value: seconds and their logarithm
  std::int64_t used_ = 0;
  int now_ = 0;
};

}  // namespace

std::string EvictWeights::text() const {
  return text_of("evict cost^", cost, " size^", size, " reach^", reach);
}

std::vector<EvictWeights> evict_variants() {
  std::vector<EvictWeights> variants;
  for (const double cost : {1.0, 0.5, 1.5, 0.0}) {
    for (const double size : {1.0, 0.5, 1.5, 0.0}) {
      for (const double reach : {1.0, 0.5, 0.25, 2.0, 0.0}) variants.push_back({cost, size, reach});
    }
  }
  return variants;
}

std::optional<std::vector<int>> evict_order(const FlatProblem& problem, std::int64_t budget,
                                            const EvictWeights& weights, std::span<const std::uint8_t> kept) {
  return Walk(problem, budget, weights, kept).orders();
}

}  // namespace sectionflow::planning

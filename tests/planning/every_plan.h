#pragma once

// The least time of any plan of a small problem, by looking at all of them: what bounds and searches are held against.
// Shares nothing with them.

#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planning/problem.h"

namespace sectionflow::planning {

inline constexpr double kNoPlan = std::numeric_limits<double>::infinity();

/// Dijkstra from state to state: `expand(state, reach)` calls reach(next, seconds) for every next one.
template <class State, class IsEnd, class Expand>
double shortest_way(const State& begin, const IsEnd& is_end, const Expand& expand) {
  using Open = std::pair<double, State>;
  std::map<State, double> best = {{begin, 0}};
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open;
  open.push({0, begin});
  while (!open.empty()) {
    const auto [seconds, state] = open.top();
    open.pop();
    if (best.at(state) < seconds) continue;
    if (is_end(state)) return seconds;
    expand(state, [&, so_far = seconds](const State& next, double more) {
      const auto [entry, is_new] = best.try_emplace(next, so_far + more);
      if (!is_new && entry->second <= so_far + more) return;
      entry->second = so_far + more;
      open.push({so_far + more, next});
    });
  }
  return kNoPlan;
}

/// What of a problem of at most 30 values and operations all states of plans have in common.
class SmallProblem {
 public:
  explicit SmallProblem(const Problem& problem) : problem_(problem) {
    for (std::size_t i = 0; i < problem.values.size(); ++i) {
      if (problem.values[i].producer < 0) given_ |= bit(i);
      if (problem.values[i].needed_at_end) wanted_ |= bit(i);
    }
    all_ = problem.operations.empty() ? 0 : (2U << (problem.operations.size() - 1)) - 1;
  }
  static unsigned bit(std::size_t i) { return 1U << i; }
  unsigned given() const { return given_; }
  bool is_end(unsigned done, unsigned resident) const { return done == all_ && (resident & wanted_) == wanted_; }
  std::int64_t bytes(unsigned values) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < problem_.values.size(); ++i)
      sum += (values & bit(i)) != 0 ? problem_.values[i].bytes : 0;
    return sum;
  }
  static unsigned mask(const std::vector<int>& values) {
    unsigned set = 0;
    for (const int value : values) set |= bit(static_cast<std::size_t>(value));
    return set;
  }
  /// For each set of inputs that operation v may write over, and that are gone behind it: `reach(inputs)`. None of
  /// them is in `kept`.
  template <class Reach>
  void overwritten(std::size_t v, unsigned resident, unsigned kept, const Reach& reach) const {
    const std::vector<Overwrite>& pairs = problem_.operations[v].overwrites;
    for (unsigned gone = 0; gone < bit(pairs.size()); ++gone) {
      unsigned inputs = 0, outputs = 0;
      bool is_set = true;
      for (std::size_t i = 0; i < pairs.size() && is_set; ++i) {
        if ((gone & bit(i)) == 0) continue;
        const unsigned input = bit(static_cast<std::size_t>(pairs[i].input));
        const unsigned output = bit(static_cast<std::size_t>(pairs[i].output));
        is_set = ((inputs | kept) & input) == 0 && ((outputs | resident) & output) == 0;
        inputs |= input;
        outputs |= output;
      }
      if (is_set) reach(inputs);
    }
  }
  /// Whether operation v may be executed now as far as its inputs and the order go.
  bool may_execute(std::size_t v, unsigned done, unsigned resident) const {
    const Operation& operation = problem_.operations[v];
    if ((done & bit(v)) != 0 && !operation.repeatable) return false;
    for (const auto& [first, second] : problem_.order) {
      if (static_cast<std::size_t>(second) == v && (done & bit(static_cast<std::size_t>(first))) == 0) return false;
    }
    for (const auto& [first, last] : problem_.ends) {
      if (static_cast<std::size_t>(first) == v && (done & bit(static_cast<std::size_t>(last))) != 0) return false;
    }
    const unsigned inputs = mask(operation.inputs);
    return (resident & inputs) == inputs;
  }

 private:
  const Problem& problem_;
  unsigned given_ = 0, wanted_ = 0, all_ = 0;
};

/// Seconds of the fastest plan within the budget that copies nothing out.
inline double least_seconds(const Problem& problem, std::int64_t budget) {
  const SmallProblem small(problem);
  using State = std::pair<unsigned, unsigned>;  // done, resident
  const auto expand = [&](const State& state, const auto& reach) {
    const unsigned done = state.first, resident = state.second;
    for (std::size_t i = 0; i < problem.values.size(); ++i) {
      if ((resident & SmallProblem::bit(i)) != 0) reach({done, resident & ~SmallProblem::bit(i)}, 0);
    }
    for (std::size_t v = 0; v < problem.operations.size(); ++v) {
      if (!small.may_execute(v, done, resident)) continue;
      const Operation& operation = problem.operations[v];
      const bool again = (done & SmallProblem::bit(v)) != 0;
      small.overwritten(v, resident, 0, [&](unsigned gone) {
        const unsigned after = (resident & ~gone) | SmallProblem::mask(operation.outputs);
        if (small.bytes(after) + operation.workspace > budget) return;
        reach({done | SmallProblem::bit(v), after},
              again ? operation.seconds_again.value_or(operation.seconds) : operation.seconds);
      });
    }
  };
  return shortest_way(
      State{0, small.given()}, [&](const State& state) { return small.is_end(state.first, state.second); }, expand);
}

/// A moment of a plan with copies: what stands in each lane, and for how many more seconds. -1: nothing.
struct Moment {
  unsigned done = 0, resident = 0, host = 0;
  int operation = -1, operation_left = 0, out = -1, out_left = 0, in = -1, in_left = 0;
  auto operator<=>(const Moment&) const = default;
};

/// The same with copies over a link without latency, for whole seconds and sizes that are whole seconds of the link.
inline double least_seconds(const Problem& problem, std::int64_t budget, std::int64_t bytes_per_second) {
  const SmallProblem small(problem);
  const auto outputs = [&](int v) {
    return SmallProblem::mask(problem.operations[static_cast<std::size_t>(v)].outputs);
  };
  const auto taken = [&](const Moment& now) {
    unsigned values = now.resident;
    std::int64_t bytes = 0;
    if (now.operation >= 0) {
      values |= outputs(now.operation);
      bytes = problem.operations[static_cast<std::size_t>(now.operation)].workspace;
    }
    if (now.in >= 0) values |= SmallProblem::bit(static_cast<std::size_t>(now.in));
    return bytes + small.bytes(values);
  };
  const auto ended = [&](Moment now) {
    if (now.operation >= 0 && now.operation_left == 0) {
      now.done |= SmallProblem::bit(static_cast<std::size_t>(now.operation));
      now.resident |= outputs(now.operation);
      now.operation = -1;
    }
    if (now.out >= 0 && now.out_left == 0)
      now.host |= SmallProblem::bit(static_cast<std::size_t>(std::exchange(now.out, -1)));
    if (now.in >= 0 && now.in_left == 0)
      now.resident |= SmallProblem::bit(static_cast<std::size_t>(std::exchange(now.in, -1)));
    return now;
  };
  const auto expand = [&](const Moment& now, const auto& reach) {
    const auto begin = [&](const Moment& next) {
      if (taken(next) <= budget) reach(ended(next), 0);
    };
    unsigned in_use = now.out >= 0 ? SmallProblem::bit(static_cast<std::size_t>(now.out)) : 0;
    if (now.operation >= 0)
      in_use |= SmallProblem::mask(problem.operations[static_cast<std::size_t>(now.operation)].inputs);
    for (std::size_t i = 0; i < problem.values.size(); ++i) {
      const unsigned value = SmallProblem::bit(i);
      const int seconds = static_cast<int>(problem.values[i].bytes / bytes_per_second);
      Moment next = now;
      if ((now.resident & value & ~in_use) != 0) {
        next.resident &= ~value;
        reach(next, 0);
      }
      if (now.out < 0 && (now.resident & ~now.host & value) != 0 && problem.values[i].movable) {
        next = now;
        next.out = static_cast<int>(i), next.out_left = seconds;
        begin(next);
      }
      if (now.in < 0 && (now.host & ~now.resident & value) != 0) {
        next = now;
        next.in = static_cast<int>(i), next.in_left = seconds;
        begin(next);
      }
    }
    for (std::size_t v = 0; now.operation < 0 && v < problem.operations.size(); ++v) {
      if (!small.may_execute(v, now.done, now.resident)) continue;
      Moment next = now;
      const Operation& operation = problem.operations[v];
      const bool again = (now.done & SmallProblem::bit(v)) != 0;
      const double seconds = again ? operation.seconds_again.value_or(operation.seconds) : operation.seconds;
      next.operation = static_cast<int>(v), next.operation_left = static_cast<int>(seconds);
      const unsigned leaving = now.out >= 0 ? SmallProblem::bit(static_cast<std::size_t>(now.out)) : 0;
      small.overwritten(v, now.resident, now.host | leaving, [&](unsigned gone) {
        next.resident = now.resident & ~gone;
        begin(next);
      });
    }
    if (now.operation < 0 && now.out < 0 && now.in < 0) return;
    Moment next = now;
    for (int* left : {&next.operation_left, &next.out_left, &next.in_left}) *left = std::max(0, *left - 1);
    reach(ended(next), 1);
  };
  const auto is_end = [&](const Moment& now) {
    return now.operation < 0 && now.out < 0 && now.in < 0 && small.is_end(now.done, now.resident);
  };
  Moment begin;
  begin.resident = small.given();
  return shortest_way(begin, is_end, expand);
}

struct SmallSizes {
  int operations = 8;  ///< at most
  std::int64_t unit_of_bytes = 1;
  bool plain = false;  ///< one output each and nothing else: what an instance file knows
};

/// Random problems with all that a problem may have.
class RandomProblems {
 public:
  explicit RandomProblems(std::uint64_t seed) : random_(seed) {}
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  Problem next(const SmallSizes& sizes) {
    Problem problem;
    const int given = sizes.plain ? 0 : std::max(0, draw(-2, 2));
    for (int i = 0; i < given; ++i) add_value(problem, -1, sizes);
    const int operations = draw(2, sizes.operations);
    for (int v = 0; v < operations; ++v) {
      Operation operation;
      operation.name = "operation" + std::to_string(v);
      operation.seconds = draw(sizes.plain ? 1 : 0, sizes.unit_of_bytes > 1 ? 3 : 9);
      const int values = static_cast<int>(problem.values.size());
      for (int value = 0; value < values; ++value) {
        const int near = values - value;
        // As in training, the later half also reads what the earlier one has made, the last first.
        const bool mirrored =
            2 * v >= operations && problem.values[static_cast<std::size_t>(value)].producer == operations - 1 - v;
        if (mirrored || draw(0, 1 + near) <= 1) operation.inputs.push_back(value);
      }
      if (!sizes.plain && draw(0, 3) == 0) operation.workspace = draw(1, 4) * sizes.unit_of_bytes;
      if (!sizes.plain && draw(0, 9) == 0) operation.repeatable = false;
      if (!sizes.plain && draw(0, 5) == 0) operation.seconds_again = draw(0, sizes.unit_of_bytes > 1 ? 3 : 9);
      const int outputs = sizes.plain ? 1 : std::max(1, draw(-3, 2));
      for (int k = 0; k < outputs; ++k) operation.outputs.push_back(add_value(problem, v, sizes));
      for (int k = sizes.plain || operation.inputs.empty() ? 0 : std::max(0, draw(-1, 2)); k > 0; --k) {
        const Overwrite pair{
            operation.inputs[static_cast<std::size_t>(draw(0, static_cast<int>(operation.inputs.size()) - 1))],
            operation.outputs[static_cast<std::size_t>(draw(0, outputs - 1))]};
        std::int64_t& bytes = problem.values[static_cast<std::size_t>(pair.output)].bytes;
        const bool is_first = operation.overwrites.empty();
        if (is_first) bytes = problem.values[static_cast<std::size_t>(pair.input)].bytes;
        if (bytes == problem.values[static_cast<std::size_t>(pair.input)].bytes) operation.overwrites.push_back(pair);
      }
      if (!sizes.plain && v > 0 && draw(0, 9) == 0) problem.order.push_back({draw(0, v - 1), v});
      if (!sizes.plain && v > 0 && !operation.repeatable && draw(0, 1) == 0)
        problem.ends.push_back({draw(0, v - 1), v});
      problem.operations.push_back(std::move(operation));
    }
    return problem;
  }

 private:
  int add_value(Problem& problem, int producer, const SmallSizes& sizes) {
    const int index = static_cast<int>(problem.values.size());
    PlannedValue value{"value" + std::to_string(index), draw(0, sizes.unit_of_bytes > 1 ? 3 : 9) * sizes.unit_of_bytes,
                       producer};
    if (!sizes.plain) {
      value.movable = draw(0, 9) > 0;
      value.needed_at_end = draw(0, 9) == 0;
    }
    problem.values.push_back(std::move(value));
    return index;
  }
  std::mt19937_64 random_;
};

}  // namespace sectionflow::planning

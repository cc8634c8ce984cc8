#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "planning/flat_problem.h"
#include "planning/problem.h"

namespace sectionflow::planning {

/// Times orders of executions and copies as `evaluate` times their plans (plan_of_order), many times a second: searches
/// believe it, users are told what `evaluate` says.
class LaneClock {
 public:
  /// `problem` has copies, and must outlive this.
  LaneClock(const FlatProblem& problem, const Link& link);

  /// Seconds until every lane is done, of an order that needs no more than `memory` bytes at any step. Infinite where
  /// it is found to be more than `most`; `cost` is the seconds of its executions alone.
  double seconds(std::span<const int> order, std::int64_t memory, double cost,
                 double most = std::numeric_limits<double>::infinity());

 private:
  /// Bytes that steps of the past still hold, and until when; ascending.
  using Held = std::vector<std::pair<double, std::int64_t>>;
  struct State {
    double ready = 0, last_use = 0, copied_out = 0;
    bool in_host = false, overwritten = false;
  };
  void find_drops(std::span<const int> order);
  void execute(int operation);
  std::int64_t overwrite(int operation);
  void copy_out(int value);
  void copy_in(int value);
  void drop(int value);
  void hold(double until, std::int64_t bytes);
  double when_at_most(std::int64_t most, double time) const;

  const FlatProblem& problem_;
  std::vector<double> copy_seconds_, drag_seconds_;  // of each value
  std::vector<std::uint8_t> is_wanted_;              // of each value, while drops are found
  std::vector<int> drops_,
      drops_begin_;  // by step, in the end the given values that nothing reads; from the last step on
  std::vector<int> written_;
  std::vector<State> states_;
  std::vector<std::uint8_t> executed_;
  Held held_;
  std::int64_t memory_ = 0, resident_ = 0;
  double executions_free_ = 0, out_free_ = 0, in_free_ = 0;
  std::span<const int> dropped_;  // behind the present step
};

}  // namespace sectionflow::planning

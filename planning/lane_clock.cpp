#include "planning/lane_clock.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "planning/evaluate.h"

namespace sectionflow::planning {

LaneClock::LaneClock(const FlatProblem& problem, const Link& link) : problem_(problem) {
  for (const std::int64_t bytes : problem.bytes) {
    copy_seconds_.push_back(copy_seconds(link, bytes));
    drag_seconds_.push_back(drag_seconds(link, bytes));
  }
}

double LaneClock::seconds(std::span<const int> order, std::int64_t memory, double cost, double most) {
  find_drops(order);
  memory_ = memory;
  resident_ = 0;
  executions_free_ = out_free_ = in_free_ = 0;
  states_.assign(pos(problem_.num_values()), {});
  executed_.assign(pos(problem_.num_operations()), 0);
  held_.clear();
  const std::span<const int> drops = drops_;
  std::size_t end = drops_.size();
  const auto drop_until = [&](int begin) {
    dropped_ = drops.subspan(pos(begin), end - pos(begin));
    for (std::size_t i = end; i-- > pos(begin);) drop(drops[i]);
    end = pos(begin);
  };
  for (int value = 0; value < problem_.num_values(); ++value) {
    if (problem_.producer[pos(value)] < 0) resident_ += problem_.bytes[pos(value)];
  }
  drop_until(drops_begin_.back());
  double left = cost;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int operation = order[i];
    const int begin = drops_begin_[order.size() - 1 - i];
    if (!problem_.is_copy(operation)) {
      dropped_ = drops.subspan(pos(begin), end - pos(begin));
      const bool again = executed_[pos(operation)] != 0;
      left -= (again ? problem_.seconds_again : problem_.seconds)[pos(operation)];
      execute(operation);
      if (executions_free_ + left > most) return std::numeric_limits<double>::infinity();
    } else if (problem_.is_copy_in(operation)) {
      copy_in(problem_.copied_by(operation));
    } else {
      copy_out(problem_.copied_by(operation));
    }
    drop_until(begin);
  }
  return std::max({executions_free_, out_free_, in_free_});
}

/// Values whose copy ends with a step: read by nothing later before they are written again.
void LaneClock::find_drops(std::span<const int> order) {
  is_wanted_.assign(problem_.at_end.begin(), problem_.at_end.end());
  drops_.clear();
  drops_begin_.clear();
  for (std::size_t i = order.size(); i-- > 0;) {
    drops_begin_.push_back(static_cast<int>(drops_.size()));
    for (const int output : problem_.outputs_of(order[i])) {
      if (is_wanted_[pos(output)] == 0) drops_.push_back(output);
      is_wanted_[pos(output)] = 0;
    }
    for (const int input : problem_.inputs_of(order[i])) {
      if (is_wanted_[pos(input)] == 0) drops_.push_back(input);
      is_wanted_[pos(input)] = 1;
    }
  }
  drops_begin_.push_back(static_cast<int>(drops_.size()));
  for (int value = 0; value < problem_.num_values(); ++value) {
    if (problem_.producer[pos(value)] < 0 && is_wanted_[pos(value)] == 0) drops_.push_back(value);
  }
}

void LaneClock::execute(int operation) {
  double begin = executions_free_;
  for (const int input : problem_.inputs_of(operation)) begin = std::max(begin, states_[pos(input)].ready);
  for (const int output : problem_.outputs_of(operation)) resident_ += problem_.bytes[pos(output)];
  resident_ -= overwrite(operation);
  const std::int64_t workspace = problem_.workspace[pos(operation)];
  begin = when_at_most(memory_ - resident_ - workspace, begin);
  const bool again = std::exchange(executed_[pos(operation)], std::uint8_t{1}) != 0;
  const double end = begin + (again ? problem_.seconds_again : problem_.seconds)[pos(operation)];
  executions_free_ = end;
  for (const int input : problem_.inputs_of(operation)) {
    double& last_use = states_[pos(input)].last_use;
    last_use = std::max(last_use, end);
  }
  for (const int output : problem_.outputs_of(operation)) {
    State& state = states_[pos(output)];
    state.ready = state.last_use = end;
  }
  hold(end, workspace);
}

/// Bytes of outputs that take those of inputs, which end here.
std::int64_t LaneClock::overwrite(int operation) {
  written_.clear();
  std::int64_t bytes = 0;
  for (const auto& [input, output] : problem_.overwrites_of(operation)) {
    State& from = states_[pos(input)];
    const bool ends = std::ranges::find(dropped_, input) != dropped_.end();
    const bool is_taken = std::ranges::find(written_, output) != written_.end();
    if (!ends || from.overwritten || from.in_host || is_taken) continue;
    from.overwritten = true;
    written_.push_back(output);
    bytes += problem_.bytes[pos(output)];
  }
  return bytes;
}

void LaneClock::copy_out(int value) {
  State& state = states_[pos(value)];
  out_free_ = std::max(out_free_, state.ready) + copy_seconds_[pos(value)];
  executions_free_ += drag_seconds_[pos(value)];
  state.copied_out = out_free_;
  state.in_host = true;
}

void LaneClock::copy_in(int value) {
  State& state = states_[pos(value)];
  resident_ += problem_.bytes[pos(value)];
  const double begin = when_at_most(memory_ - resident_, std::max(in_free_, state.copied_out));
  in_free_ = begin + copy_seconds_[pos(value)];
  executions_free_ += drag_seconds_[pos(value)];
  state.ready = state.last_use = in_free_;
}

void LaneClock::drop(int value) {
  State& state = states_[pos(value)];
  if (std::exchange(state.overwritten, false)) return;
  resident_ -= problem_.bytes[pos(value)];
  hold(std::max({state.ready, state.last_use, state.in_host ? state.copied_out : 0.0}), problem_.bytes[pos(value)]);
}

void LaneClock::hold(double until, std::int64_t bytes) {
  if (bytes == 0) return;
  held_.emplace_back(until, bytes);
  for (std::size_t i = held_.size() - 1; i > 0 && held_[i - 1].first > until; --i) std::swap(held_[i], held_[i - 1]);
}

/// The earliest time from `time` on at which no more than `most` bytes are held.
double LaneClock::when_at_most(std::int64_t most, double time) const {
  std::int64_t sum = 0;
  for (std::size_t i = held_.size(); i > 0 && held_[i - 1].first > time; --i) {
    sum += held_[i - 1].second;
    if (sum > most) return held_[i - 1].first;
  }
  return time;
}

}  // namespace sectionflow::planning

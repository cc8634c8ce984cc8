#pragma once

// Prices a plan by looking at all of its past anew at every step: what evaluate() is held against. Shares nothing with
// it.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "planning/evaluate.h"

namespace sectionflow::planning {

/// What a plan without faults comes to.
struct SimplePrice {
  std::int64_t peak = 0;
  double cost = 0, seconds = 0;
};

class SimpleEvaluator {
 public:
  SimpleEvaluator(const Problem& problem, const Limits& limits) : problem_(problem), limits_(limits) {}

  /// None: the plan has a fault.
  std::optional<SimplePrice> price(const Plan& plan) {
    for (std::size_t i = 0; i < problem_.values.size(); ++i) {
      if (problem_.values[i].producer < 0) resident_.insert(static_cast<int>(i));
    }
    if (!note_peak(0)) return std::nullopt;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].kind == PlanStep::Kind::compute) overwritten_ = overwritten_at(plan, i);
      if (!take(plan.steps[i])) return std::nullopt;
    }
    if (done_.size() != problem_.operations.size()) return std::nullopt;
    for (std::size_t i = 0; i < problem_.values.size(); ++i) {
      if (problem_.values[i].needed_at_end && !resident_.contains(static_cast<int>(i))) return std::nullopt;
    }
    for (const auto& past : past_) price_.seconds = std::max(price_.seconds, past.end);
    return price_;
  }

 private:
  /// What a step did: its lane, which values it read and wrote, when it ended; and bytes that it gives back then.
  struct Past {
    PlanStep::Kind kind;
    std::vector<int> touched;
    double end = 0;
    std::int64_t given_back = 0;
  };

  std::int64_t bytes(int value) const { return problem_.values[static_cast<std::size_t>(value)].bytes; }
  std::int64_t resident_bytes() const {
    std::int64_t sum = 0;
    for (const int value : resident_) sum += bytes(value);
    return sum;
  }
  /// Beside what is resident.
  bool note_peak(std::int64_t more) {
    price_.peak = std::max(price_.peak, resident_bytes() + more);
    return resident_bytes() + more <= limits_.budget;
  }

  /// When the last step of a lane is done, or the last from step `first` on that touched a value.
  double end_of_lane(PlanStep::Kind kind) const {
    double end = 0;
    for (const Past& past : past_) end = past.kind == kind ? std::max(end, past.end) : end;
    return end;
  }
  double end_of(PlanStep::Kind kind, int value, std::size_t first = 0) const {
    double end = 0;
    for (std::size_t i = first; i < past_.size(); ++i) {
      const Past& past = past_[i];
      if (past.kind == kind && std::ranges::count(past.touched, value) > 0) end = std::max(end, past.end);
    }
    return end;
  }
  /// When the copy that is resident was written: by an execution or a copy in.
  double ready(int value) const {
    const auto known = written_.find(value);
    return known == written_.end() ? 0 : known->second;
  }

  /// The first moment from `time` on when `more` bytes fit beside all that is resident or not yet given back.
  double when_it_fits(double time, std::int64_t more) const {
    std::vector<double> moments = {time};
    for (const Past& past : past_) moments.push_back(std::max(past.end, time));
    std::ranges::sort(moments);
    for (const double moment : moments) {
      std::int64_t held = resident_bytes() + more;
      for (const Past& past : past_) held += past.end > moment ? past.given_back : 0;
      if (held <= limits_.budget) return moment;
    }
    return std::numeric_limits<double>::infinity();
  }

  bool take(const PlanStep& step) {
    const bool is_operation = step.kind == PlanStep::Kind::compute;
    const std::size_t count = is_operation ? problem_.operations.size() : problem_.values.size();
    if (step.id < 0 || static_cast<std::size_t>(step.id) >= count) return false;
    if (is_operation) return compute(step.id);
    const bool is_resident = resident_.contains(step.id);
    if (step.kind == PlanStep::Kind::in) return !is_resident && copy_in(step.id);
    if (!is_resident) return false;
    if (step.kind == PlanStep::Kind::out) return copy_out(step.id);
    const double free = std::max({ready(step.id), end_of(PlanStep::Kind::out, step.id),
                                  end_of(PlanStep::Kind::compute, step.id, first_[step.id])});
    past_.push_back(
        {PlanStep::Kind::drop, {}, free, overwritten_.contains(step.id) ? std::int64_t{0} : bytes(step.id)});
    resident_.erase(step.id);
    overwritten_.erase(step.id);
    return true;
  }

  /// Inputs by the outputs that an execution writes over them: gone before anything else asks for memory, and never in
  /// host memory until then.
  std::map<int, int> overwritten_at(const Plan& plan, std::size_t index) const {
    std::set<int> gone, copied;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const PlanStep& step = plan.steps[i];
      if (i > index && (step.kind == PlanStep::Kind::compute || step.kind == PlanStep::Kind::in)) break;
      if (step.kind == PlanStep::Kind::out) copied.insert(step.id);
      if (step.kind == PlanStep::Kind::drop && i > index) gone.insert(step.id);
    }
    std::map<int, int> over;
    std::set<int> outputs;
    const int id = plan.steps[index].id;
    if (id < 0 || static_cast<std::size_t>(id) >= problem_.operations.size()) return over;
    for (const Overwrite& pair : problem_.operations[static_cast<std::size_t>(id)].overwrites) {
      if (!gone.contains(pair.input) || copied.contains(pair.input) || over.contains(pair.input)) continue;
      if (resident_.contains(pair.output) || !outputs.insert(pair.output).second) continue;
      over[pair.input] = pair.output;
    }
    return over;
  }

  bool compute(int id) {
    const Operation& operation = problem_.operations[static_cast<std::size_t>(id)];
    double begin = end_of_lane(PlanStep::Kind::compute);
    for (const int input : operation.inputs) {
      if (!resident_.contains(input)) return false;
      begin = std::max(begin, ready(input));
    }
    if (done_.contains(id) && !operation.repeatable) return false;
    for (const auto& [first, second] : problem_.order) {
      if (second == id && !done_.contains(first)) return false;
    }
    for (const auto& [first, last] : problem_.ends) {
      if (first == id && done_.contains(last)) return false;
    }
    const double seconds = done_.contains(id) ? operation.seconds_again.value_or(operation.seconds) : operation.seconds;
    std::vector<int> fresh;
    std::int64_t more = operation.workspace;
    for (const int output : operation.outputs) {
      if (resident_.contains(output)) continue;
      fresh.push_back(output);
      more += bytes(output);
    }
    for (const auto& [input, output] : overwritten_) more -= bytes(output);
    if (!note_peak(more)) return false;
    const double end = when_it_fits(begin, more) + seconds;
    past_.push_back({PlanStep::Kind::compute, operation.inputs, end, operation.workspace});
    for (const int output : fresh) {
      write(output, end);
    }
    done_.insert(id);
    price_.cost += seconds;
    return true;
  }

  bool copy_out(int value) {
    const bool has_link = limits_.link.bytes_per_second > 0;
    if (!has_link || !problem_.values[static_cast<std::size_t>(value)].movable) return false;
    if (!host_.insert(value).second) return false;
    const double begin = std::max(end_of_lane(PlanStep::Kind::out), ready(value));
    past_.push_back({PlanStep::Kind::out, {value}, begin + copy_time(value), 0});
    delay_executions(value);
    return true;
  }

  bool copy_in(int value) {
    if (!host_.contains(value) || !note_peak(bytes(value))) return false;
    const double begin = std::max(end_of_lane(PlanStep::Kind::in), end_of(PlanStep::Kind::out, value));
    const double end = when_it_fits(begin, bytes(value)) + copy_time(value);
    past_.push_back({PlanStep::Kind::in, {value}, end, 0});
    delay_executions(value);
    write(value, end);
    return true;
  }

  void delay_executions(int copied) {
    const double by = limits_.link.drag * static_cast<double>(bytes(copied));
    if (by > 0) past_.push_back({PlanStep::Kind::compute, {}, end_of_lane(PlanStep::Kind::compute) + by, 0});
  }

  void write(int value, double end) {
    resident_.insert(value);
    written_[value] = end;
    first_[value] = past_.size();
  }

  double copy_time(int value) const {
    return limits_.link.latency + static_cast<double>(bytes(value)) / limits_.link.bytes_per_second;
  }

  const Problem& problem_;
  const Limits limits_;
  std::set<int> resident_, host_, done_;
  std::map<int, double> written_;
  std::map<int, std::size_t> first_;  // of `past_` that may have read the copy that is resident
  std::map<int, int> overwritten_;    // by the last execution
  std::vector<Past> past_;
  SimplePrice price_;
};

}  // namespace sectionflow::planning

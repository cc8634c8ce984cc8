#include "planning/evaluate.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sectionflow::planning {
namespace {

using StepKind = PlanStep::Kind;

/// Bytes that steps of the past still hold, by when they are given back.
class HeldBytes {
 public:
  void add(double until, std::int64_t bytes) {
    if (bytes == 0) return;
    const auto later = [](double time, const Entry& entry) { return time < entry.first; };
    held_.insert(std::upper_bound(held_.begin(), held_.end(), until, later), {until, bytes});
  }
  /// The earliest time from `time` on at which no more than `most` bytes are held.
  double when_at_most(std::int64_t most, double time) const {
    std::int64_t sum = 0;
    for (auto entry = held_.rbegin(); entry != held_.rend() && entry->first > time; ++entry) {
      sum += entry->second;
      if (sum > most) return entry->first;
    }
    return time;
  }

 private:
  using Entry = std::pair<double, std::int64_t>;
  std::vector<Entry> held_;  // ascending; new ones belong near the end
};

/// Executes a plan on paper, step by step.
class Evaluator {
 public:
  Evaluator(const Problem& problem, const Limits& limits)
      : problem_(problem), limits_(limits), values_(problem.values.size()), executions_(problem.operations.size()) {
    before_.resize(problem.operations.size());
    ended_by_.resize(problem.operations.size());
    for (const auto& [first, second] : problem.ends) ended_by_[static_cast<std::size_t>(first)].push_back(second);
    for (const auto& [first, second] : problem.order) before_[static_cast<std::size_t>(second)].push_back(first);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (problem.values[i].producer >= 0) continue;
      values_[i].resident = true;
      resident_ += problem.values[i].bytes;
    }
    result_.peak = resident_;
  }

  Evaluation evaluate(const Plan& plan) {
    if (resident_ > limits_.budget) fault(0, "given values take ", resident_, " bytes, the budget is ", limits_.budget);
    for (std::size_t i = 0; i < plan.steps.size() && result_.fault.empty(); ++i) {
      step(i, plan);
      spans_.push_back(span_);
    }
    if (result_.fault.empty()) check_end(plan.steps.size());
    result_.ok = result_.fault.empty();
    result_.seconds = std::max({compute_free_, out_free_, in_free_});
    result_.stall_seconds = result_.seconds - result_.cost;
    return std::move(result_);
  }
  /// Of the steps that have been evaluated.
  std::vector<StepSpan> spans() { return std::move(spans_); }

 private:
  struct State {
    bool resident = false;
    bool in_host = false;
    bool overwritten = false;  ///< by the last execution: is going to be dropped
    double ready = 0;          ///< when the resident copy is written
    double last_use = 0;       ///< when its last reader is done
    double copied_out = 0;     ///< when the copy in host memory is complete
  };

  template <class... Parts>
  void fault(std::size_t step, const Parts&... parts) {
    result_.fault_step = step;
    result_.fault = text_of(parts...);
  }
  std::string value_text(int id) const {
    return text_of("value ", id, " '", problem_.values[static_cast<std::size_t>(id)].name, "'");
  }
  std::string operation_text(int id) const {
    return text_of("operation ", id, " '", problem_.operations[static_cast<std::size_t>(id)].name, "'");
  }

  void step(std::size_t index, const Plan& plan) {
    const PlanStep& step = plan.steps[index];
    const std::size_t count = step.kind == StepKind::compute ? problem_.operations.size() : problem_.values.size();
    if (step.id < 0 || step.id >= static_cast<int>(count)) {
      return fault(index, "index ", step.id, " is none of the ", count,
                   step.kind == StepKind::compute ? " operations" : " values");
    }
    switch (step.kind) {
      case StepKind::compute:
        return compute(index, step.id, std::span(plan.steps).subspan(index + 1));
      case StepKind::drop:
        return drop(index, step.id);
      case StepKind::out:
        return copy_out(index, step.id);
      case StepKind::in:
        return copy_in(index, step.id);
    }
    fault(index, "kind ", static_cast<int>(step.kind), " is none of compute, drop, out and in");
  }

  void compute(std::size_t index, int id, std::span<const PlanStep> behind) {
    const Operation& operation = problem_.operations[static_cast<std::size_t>(id)];
    double begin = compute_free_;
    for (const int input : operation.inputs) {
      const State& state = values_[static_cast<std::size_t>(input)];
      if (!state.resident) return fault(index, operation_text(id), " reads ", value_text(input), ", not resident");
      begin = std::max(begin, state.ready);
    }
    int& executions = executions_[static_cast<std::size_t>(id)];
    if (executions > 0 && !operation.repeatable) {
      return fault(index, operation_text(id), " is executed again and is not repeatable");
    }
    for (const int first : before_[static_cast<std::size_t>(id)]) {
      if (executions_[static_cast<std::size_t>(first)] > 0) continue;
      return fault(index, operation_text(id), " is executed before ", operation_text(first), ", which it must follow");
    }
    for (const int last : ended_by_[static_cast<std::size_t>(id)]) {
      if (executions_[static_cast<std::size_t>(last)] == 0) continue;
      return fault(index, operation_text(id), " is executed after ", operation_text(last), ", which ends that");
    }
    std::int64_t outputs = 0;
    for (const int output : operation.outputs) {
      if (!values_[static_cast<std::size_t>(output)].resident) outputs += bytes_of(output);
    }
    outputs -= overwrite(operation, behind);
    if (!take(index, outputs + operation.workspace, operation_text(id))) return;
    begin = held_.when_at_most(limits_.budget - resident_ - outputs - operation.workspace, begin);
    const double seconds = executions > 0 ? seconds_again(operation) : operation.seconds;
    const double end = begin + seconds;
    ++executions;
    compute_free_ = end;
    result_.cost += seconds;
    for (const int input : operation.inputs) {
      State& state = values_[static_cast<std::size_t>(input)];
      state.last_use = std::max(state.last_use, end);
    }
    for (const int output : operation.outputs) {
      State& state = values_[static_cast<std::size_t>(output)];
      if (!state.resident) state.ready = state.last_use = end;
      state.resident = true;
    }
    resident_ += outputs;
    held_.add(end, operation.workspace);
    span_ = {begin, end};
  }

  /// Bytes of the outputs that are written over inputs which the plan drops before its next execution or copy in. A
  /// value with a copy in host memory is not written over: that copy may still be under way.
  std::int64_t overwrite(const Operation& operation, std::span<const PlanStep> behind) {
    if (operation.overwrites.empty()) return 0;
    std::vector<int> dropped, copied, written;
    for (const PlanStep& step : behind) {
      if (step.kind != StepKind::drop && step.kind != StepKind::out) break;
      (step.kind == StepKind::drop ? dropped : copied).push_back(step.id);
    }
    const auto contains = [](const std::vector<int>& list, int id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    std::int64_t bytes = 0;
    for (const auto& [input, output] : operation.overwrites) {
      State& from = values_[static_cast<std::size_t>(input)];
      const bool is_free = contains(dropped, input) && !from.overwritten && !from.in_host && !contains(copied, input);
      if (!is_free || values_[static_cast<std::size_t>(output)].resident || contains(written, output)) continue;
      from.overwritten = true;
      written.push_back(output);
      bytes += bytes_of(output);
    }
    return bytes;
  }

  void drop(std::size_t index, int id) {
    State& state = values_[static_cast<std::size_t>(id)];
    if (!state.resident) return fault(index, value_text(id), " is dropped and not resident");
    state.resident = false;
    // Its bytes are those of an output.
    span_ = {state.last_use, state.last_use};
    if (std::exchange(state.overwritten, false)) return;
    resident_ -= bytes_of(id);
    // A copy in host memory that is still being written reads the copy in device memory.
    const double until = std::max({state.ready, state.last_use, state.in_host ? state.copied_out : 0.0});
    held_.add(until, bytes_of(id));
    span_ = {until, until};
  }

  void copy_out(std::size_t index, int id) {
    State& state = values_[static_cast<std::size_t>(id)];
    if (!state.resident) return fault(index, value_text(id), " is copied out and not resident");
    if (state.in_host) return fault(index, value_text(id), " is copied out and has a copy in host memory");
    if (!problem_.values[static_cast<std::size_t>(id)].movable) {
      return fault(index, value_text(id), " is copied out and must stay in device memory");
    }
    if (limits_.link.bytes_per_second <= 0) return fault(index, value_text(id), " is copied out and there is no link");
    span_.begin = std::max(out_free_, state.ready);
    span_.end = out_free_ = span_.begin + copy_seconds(limits_.link, bytes_of(id));
    compute_free_ += drag_seconds(limits_.link, bytes_of(id));
    state.copied_out = out_free_;
    state.in_host = true;
    result_.bytes_out += bytes_of(id);
  }

  void copy_in(std::size_t index, int id) {
    State& state = values_[static_cast<std::size_t>(id)];
    if (state.resident) return fault(index, value_text(id), " is copied in and is resident");
    if (!state.in_host) return fault(index, value_text(id), " is copied in and has no copy in host memory");
    if (!take(index, bytes_of(id), value_text(id))) return;
    const double begin =
        held_.when_at_most(limits_.budget - resident_ - bytes_of(id), std::max(in_free_, state.copied_out));
    in_free_ = begin + copy_seconds(limits_.link, bytes_of(id));
    compute_free_ += drag_seconds(limits_.link, bytes_of(id));
    span_ = {begin, in_free_};
    state.ready = state.last_use = in_free_;
    state.resident = true;
    resident_ += bytes_of(id);
    result_.bytes_in += bytes_of(id);
  }

  /// Counts `bytes` beside what is resident; false, with the fault, where the budget has no place for them.
  bool take(std::size_t index, std::int64_t bytes, const std::string& who) {
    if (bytes > limits_.budget - resident_) {
      fault(index, who, " brings the bytes in device memory to ", resident_ + bytes, ", the budget is ",
            limits_.budget);
      return false;
    }
    result_.peak = std::max(result_.peak, resident_ + bytes);
    return true;
  }

  void check_end(std::size_t end) {
    for (std::size_t v = 0; v < executions_.size(); ++v) {
      if (executions_[v] == 0) return fault(end, operation_text(static_cast<int>(v)), " is never executed");
    }
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (problem_.values[i].needed_at_end && !values_[i].resident) {
        return fault(end, value_text(static_cast<int>(i)), " is needed at the end and not resident");
      }
    }
  }

  std::int64_t bytes_of(int id) const { return problem_.values[static_cast<std::size_t>(id)].bytes; }

  const Problem& problem_;
  const Limits limits_;
  std::vector<State> values_;
  std::vector<int> executions_;
  std::vector<std::vector<int>> before_, ended_by_;
  HeldBytes held_;
  std::int64_t resident_ = 0;
  double compute_free_ = 0, out_free_ = 0, in_free_ = 0;
  StepSpan span_;  // of the latest step
  std::vector<StepSpan> spans_;
  Evaluation result_;
};

}  // namespace

Evaluation evaluate(const Problem& problem, const Plan& plan, const Limits& limits) {
  check_problem(problem);
  check_link(limits.link);
  return Evaluator(problem, limits).evaluate(plan);
}

std::vector<StepSpan> spans_of(const Problem& problem, const Plan& plan, const Limits& limits) {
  check_problem(problem);
  check_link(limits.link);
  Evaluator evaluator(problem, limits);
  const Evaluation evaluation = evaluator.evaluate(plan);
  SF_CHECK(evaluation.ok, ArgumentError, "the plan has no times: at step ", evaluation.fault_step, " ",
           evaluation.fault);
  return evaluator.spans();
}

Plan default_plan(const Problem& problem) {
  check_problem(problem);
  std::vector<int> readers_left(problem.values.size(), 0);
  for (const Operation& operation : problem.operations) {
    for (const int input : operation.inputs) ++readers_left[static_cast<std::size_t>(input)];
  }
  Plan plan;
  const auto drop_if_done = [&](int value) {
    if (readers_left[static_cast<std::size_t>(value)] > 0) return;
    if (!problem.values[static_cast<std::size_t>(value)].needed_at_end) plan.steps.push_back({StepKind::drop, value});
  };
  for (std::size_t i = 0; i < problem.values.size(); ++i) {
    if (problem.values[i].producer < 0) drop_if_done(static_cast<int>(i));
  }
  for (std::size_t v = 0; v < problem.operations.size(); ++v) {
    plan.steps.push_back({StepKind::compute, static_cast<int>(v)});
    for (const int output : problem.operations[v].outputs) drop_if_done(output);
    for (const int input : problem.operations[v].inputs) {
      --readers_left[static_cast<std::size_t>(input)];
      drop_if_done(input);
    }
  }
  return plan;
}

std::int64_t default_peak(const Problem& problem) {
  return evaluate(problem, default_plan(problem)).peak;
}

double default_cost(const Problem& problem) {
  double cost = 0;
  for (const Operation& operation : problem.operations) cost += operation.seconds;
  return cost;
}

double cost_of(const Problem& problem, std::span<const int> order) {
  std::vector<bool> executed(problem.operations.size(), false);
  double cost = 0;
  for (const int id : order) {
    const auto i = static_cast<std::size_t>(id);
    cost += executed[i] ? seconds_again(problem.operations[i]) : problem.operations[i].seconds;
    executed[i] = true;
  }
  return cost;
}

double copy_seconds(const Link& link, std::int64_t bytes) {
  return link.latency + static_cast<double>(bytes) / link.bytes_per_second;
}

double drag_seconds(const Link& link, std::int64_t bytes) {
  return link.drag * static_cast<double>(bytes);
}

std::int64_t most_overwritten(const Problem& problem, const Operation& operation,
                              const std::function<bool(int value)>& may_go) {
  std::vector<int> inputs, outputs;
  for (const auto& [input, output] : operation.overwrites) {
    if (!may_go(input)) continue;
    inputs.push_back(input);
    outputs.push_back(output);
  }
  const auto bytes_of = [&](std::vector<int>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    std::int64_t bytes = 0;
    for (const int value : values) bytes += problem.values[static_cast<std::size_t>(value)].bytes;
    return bytes;
  };
  return std::min(bytes_of(inputs), bytes_of(outputs));
}

std::int64_t working_set(const Problem& problem, int operation, const Link& link) {
  return working_set(problem, operation, always_there(problem, link));
}

std::vector<int> always_there(const Problem& problem, const Link& link) {
  std::vector<int> values;
  for (std::size_t i = 0; i < problem.values.size(); ++i) {
    const PlannedValue& value = problem.values[i];
    const bool can_leave = value.movable && link.bytes_per_second > 0;
    if (value.producer < 0 && value.needed_at_end && !can_leave) values.push_back(static_cast<int>(i));
  }
  return values;
}

std::int64_t working_set(const Problem& problem, int operation, std::span<const int> always_there) {
  const Operation& executed = problem.operations[static_cast<std::size_t>(operation)];
  std::int64_t bytes = executed.workspace;
  const auto count = [&](int value) { bytes += problem.values[static_cast<std::size_t>(value)].bytes; };
  for (const int input : executed.inputs) count(input);
  for (const int output : executed.outputs) count(output);
  bytes -= most_overwritten(problem, executed, [&](int input) {
    const PlannedValue& value = problem.values[static_cast<std::size_t>(input)];
    const bool is_made_again =
        value.producer >= 0 && problem.operations[static_cast<std::size_t>(value.producer)].repeatable;
    return !value.needed_at_end || is_made_again;
  });
  for (const int value : always_there) {
    const bool is_read = std::find(executed.inputs.begin(), executed.inputs.end(), value) != executed.inputs.end();
    if (!is_read) count(value);
  }
  return bytes;
}

}  // namespace sectionflow::planning

#include "planning/offload.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planning/evaluate.h"

namespace sectionflow::planning {
namespace {

using StepKind = PlanStep::Kind;

/// A copy of a value in device memory, in executions of an order: -1 is before the first, their number the plan's end.
struct Stay {
  int value = 0, written = 0;
  std::vector<int> readers;  // ascending
  int last() const { return readers.empty() ? written : readers.back(); }
};

/// By value, those of a value in their order.
std::vector<Stay> stays_of(const FlatProblem& problem, std::span<const int> order) {
  std::vector<std::vector<Stay>> stays(pos(problem.num_values()));
  for (int value = 0; value < problem.num_values(); ++value) {
    if (problem.producer[pos(value)] < 0) stays[pos(value)].push_back({value, -1, {}});
  }
  for (int i = 0; i < static_cast<int>(order.size()); ++i) {
    for (const int input : problem.inputs_of(order[pos(i)])) stays[pos(input)].back().readers.push_back(i);
    for (const int output : problem.outputs_of(order[pos(i)])) stays[pos(output)].push_back({output, i, {}});
  }
  std::vector<Stay> all;
  for (int value = 0; value < problem.num_values(); ++value) {
    if (problem.at_end[pos(value)] != 0) stays[pos(value)].back().readers.push_back(static_cast<int>(order.size()));
    for (Stay& stay : stays[pos(value)]) all.push_back(std::move(stay));
  }
  return all;
}

/// A value that may leave between two executions that need it.
struct Gap {
  int value = 0, written = 0;  // the execution that wrote the value for the first time: it may be copied out then
  int used = 0, read = 0;      // between these two it is idle
  int first = 0, last = -1;    // absent, once copies have their times
  bool is_absent() const { return first <= last; }
};

class Chooser {
 public:
  Chooser(const FlatProblem& problem, std::span<const int> order, std::int64_t target, const Link& link, bool may_wait)
      : problem_(problem), target_(target), link_(link), may_wait_(may_wait), count_(static_cast<int>(order.size())) {
    begin_.push_back(0);
    std::vector<std::uint8_t> executed(pos(problem.num_operations()), 0);
    for (const int operation : order) {
      const bool again = std::exchange(executed[pos(operation)], std::uint8_t{1}) != 0;
      begin_.push_back(begin_.back() + (again ? problem.seconds_again : problem.seconds)[pos(operation)]);
    }
    memory_.assign(pos(count_ + 1), 0);
    const std::vector<Stay> stays = stays_of(problem, order);
    for (int i = 0; i < count_; ++i) add(i, i, problem.workspace[pos(order[pos(i)])]);
    std::vector<int> first_written(pos(problem.num_values()), -2);
    for (const Stay& stay : stays) {
      add(std::max(stay.written, 0), std::min(stay.last(), count_ - 1), problem.bytes[pos(stay.value)]);
      int& written = first_written[pos(stay.value)];
      if (written == -2) written = stay.written;
      add_gaps(stay, written);
    }
    std::partial_sum(memory_.begin(), memory_.end(), memory_.begin());
    std::ranges::stable_sort(gaps_, [&](const Gap& a, const Gap& b) { return idle(a) > idle(b); });
  }

  Offloads choose() {
    double overrun = schedule_and_sum();
    for (const Gap& gap : gaps_) {
      if (overrun <= 0) break;
      if (!covers_overrun(gap)) continue;
      chosen_.push_back(gap);
      const double less = schedule_and_sum();
      if (less < overrun) {
        overrun = less;
      } else {
        chosen_.pop_back();
      }
    }
    schedule_and_sum();
    Offloads offloads;
    for (const Gap& gap : chosen_) {
      if (gap.is_absent()) offloads.absences.push_back({gap.value, gap.first, gap.last});
    }
    offloads.peak = *std::max_element(left_.begin(), left_.end());
    return offloads;
  }

 private:
  void add(int first, int last, std::int64_t bytes) {
    if (first > last) return;
    memory_[pos(first)] += bytes;
    memory_[pos(last + 1)] -= bytes;
  }

  double idle(const Gap& gap) const { return begin_[pos(gap.read)] - begin_[pos(gap.used + 1)]; }
  double seconds(int value) const { return copy_seconds(link_, problem_.bytes[pos(value)]); }

  void add_gaps(const Stay& stay, int first_written) {
    if (problem_.movable[pos(stay.value)] == 0 || problem_.bytes[pos(stay.value)] == 0) return;
    int used = stay.written;
    for (const int read : stay.readers) {
      const Gap gap{stay.value, first_written, used, read};
      if (read - used > 1 && (may_wait_ || idle(gap) > seconds(stay.value))) gaps_.push_back(gap);
      used = read;
    }
  }

  bool covers_overrun(const Gap& gap) const {
    const auto from = left_.begin() + gap.used + 1, to = left_.begin() + gap.read;
    return std::any_of(from, to, [&](std::int64_t bytes) { return bytes > target_; });
  }

  /// Gives the chosen copies their times, and sums up by how much memory is still passed, over all executions.
  double schedule_and_sum() {
    schedule();
    left_.assign(pos(count_ + 1), 0);
    for (const Gap& gap : chosen_) {
      if (!gap.is_absent()) continue;
      left_[pos(gap.first)] -= problem_.bytes[pos(gap.value)];
      left_[pos(gap.last + 1)] += problem_.bytes[pos(gap.value)];
    }
    std::partial_sum(left_.begin(), left_.end(), left_.begin());
    double overrun = 0;
    for (std::size_t i = 0; i < left_.size(); ++i) {
      left_[i] += memory_[i];
      if (left_[i] > target_) overrun += static_cast<double>(left_[i] - target_);
    }
    return overrun;
  }

  void schedule() {
    if (may_wait_) {
      for (Gap& gap : chosen_) {
        gap.first = gap.used + 1;
        gap.last = gap.read - 1;
      }
      return;
    }
    std::vector<Gap*> gaps;
    for (Gap& gap : chosen_) gaps.push_back(&gap);
    std::vector<double> out_done(chosen_.size());
    std::ranges::stable_sort(gaps, [](const Gap* a, const Gap* b) { return a->written < b->written; });
    double lane = 0;
    std::vector<std::pair<int, double>> copied;  // value and when, for those whose copy in host memory serves again
    for (const Gap* gap : gaps) {
      const auto known = std::ranges::find(copied, gap->value, &std::pair<int, double>::first);
      double done = known != copied.end() ? known->second : 0;
      if (known == copied.end()) {
        done = lane = std::max(lane, begin_[pos(gap->written + 1)]) + seconds(gap->value);
        if (has_several_gaps(gap->value)) copied.emplace_back(gap->value, done);
      }
      out_done[static_cast<std::size_t>(gap - chosen_.data())] = done;
    }
    std::ranges::stable_sort(gaps, [](const Gap* a, const Gap* b) { return a->read > b->read; });
    lane = begin_.back();
    for (Gap* gap : gaps) {
      const double done = out_done[static_cast<std::size_t>(gap - chosen_.data())];
      const double start = std::min(lane, begin_[pos(gap->read)]) - seconds(gap->value);
      const auto after = std::lower_bound(begin_.begin(), begin_.end(), done);
      const auto under_way = std::upper_bound(begin_.begin(), begin_.end(), start);
      gap->first = std::max(gap->used + 1, static_cast<int>(after - begin_.begin()));
      gap->last = std::min(gap->read - 1, static_cast<int>(under_way - begin_.begin()) - 2);
      // What cannot be back in time stays, and takes nothing of the lane.
      if (gap->is_absent()) lane = start;
    }
  }

  bool has_several_gaps(int value) const { return std::ranges::count(chosen_, value, &Gap::value) > 1; }

  const FlatProblem& problem_;
  const std::int64_t target_;
  const Link link_;
  const bool may_wait_;
  const int count_;
  std::vector<double> begin_;         // of each execution, and the end
  std::vector<std::int64_t> memory_;  // of each execution without offloads; first as differences
  std::vector<std::int64_t> left_;    // with them
  std::vector<Gap> gaps_, chosen_;
};

}  // namespace

Offloads choose_offloads(const FlatProblem& problem, std::span<const int> order, std::int64_t target, const Link& link,
                         bool may_wait) {
  return Chooser(problem, order, target, link, may_wait).choose();
}

Plan plan_of(const FlatProblem& problem, std::span<const int> order, std::span<const Absence> absences) {
  const int count = static_cast<int>(order.size());
  std::vector<std::vector<PlanStep>> before(pos(count + 1)), after(pos(count + 1));  // executions; `after` from -1 on
  std::vector<std::vector<Absence>> absent(pos(problem.num_values()));
  for (const Absence& absence : absences) absent[pos(absence.value)].push_back(absence);
  std::vector<bool> is_out(pos(problem.num_values()), false);
  for (const Stay& stay : stays_of(problem, order)) {
    if (!absent[pos(stay.value)].empty() && !is_out[pos(stay.value)]) {
      after[pos(stay.written + 1)].push_back({StepKind::out, stay.value});
      is_out[pos(stay.value)] = true;
    }
    for (const Absence& absence : absent[pos(stay.value)]) {
      if (absence.first <= stay.written || absence.first > stay.last()) continue;
      after[pos(absence.first)].push_back({StepKind::drop, stay.value});
      before[pos(absence.last + 1)].push_back({StepKind::in, stay.value});
    }
    if (stay.last() < count) after[pos(stay.last() + 1)].push_back({StepKind::drop, stay.value});
  }
  Plan plan;
  for (int i = -1; i < count; ++i) {
    if (i >= 0) plan.steps.push_back({StepKind::compute, order[pos(i)]});
    const auto& steps = after[pos(i + 1)];
    // Copies out first: a value may leave right after it is written.
    for (const PlanStep& step : steps) {
      if (step.kind == StepKind::out) plan.steps.push_back(step);
    }
    for (const PlanStep& step : steps) {
      if (step.kind != StepKind::out) plan.steps.push_back(step);
    }
    const auto& next = before[pos(i + 1)];
    plan.steps.insert(plan.steps.end(), next.begin(), next.end());
  }
  return plan;
}

Plan plan_with_copies(const FlatProblem& problem, std::span<const int> order) {
  std::vector<std::uint8_t> is_wanted(problem.at_end.begin(), problem.at_end.end());
  std::vector<PlanStep> steps;  // from the last one on
  const auto ends = [&](int value) {
    if (is_wanted[pos(value)] == 0) steps.push_back({StepKind::drop, value});
  };
  for (std::size_t i = order.size(); i-- > 0;) {
    const int operation = order[i];
    for (const int output : problem.outputs_of(operation)) {
      ends(output);
      is_wanted[pos(output)] = 0;
    }
    for (const int input : problem.inputs_of(operation)) {
      ends(input);
      is_wanted[pos(input)] = 1;
    }
    if (!problem.is_copy(operation)) {
      steps.push_back({StepKind::compute, operation});
    } else {
      steps.push_back({problem.is_copy_in(operation) ? StepKind::in : StepKind::out, problem.copied_by(operation)});
    }
  }
  for (int value = 0; value < problem.num_values(); ++value) {
    if (problem.producer[pos(value)] < 0) ends(value);
  }
  return {{steps.rbegin(), steps.rend()}};
}

std::vector<int> order_with_copies(const FlatProblem& problem, const Plan& plan) {
  std::vector<std::uint8_t> comes_back(pos(problem.num_values()), 0);
  for (const auto& [kind, id] : plan.steps) {
    if (kind == StepKind::in) comes_back[pos(id)] = 1;
  }
  std::vector<int> order;
  const auto add_copy = [&](int copy) {
    // Values without bytes have none: they stay.
    if (copy >= 0) order.push_back(copy);
  };
  for (const auto& [kind, id] : plan.steps) {
    if (kind == StepKind::compute) order.push_back(id);
    // What never comes back need not leave.
    if (kind == StepKind::out && comes_back[pos(id)] != 0) add_copy(problem.copy_out_of(id));
    if (kind == StepKind::in) add_copy(problem.copy_in_of(id));
  }
  return order;
}

}  // namespace sectionflow::planning

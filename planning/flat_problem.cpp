#include "planning/flat_problem.h"

namespace sectionflow::planning {
namespace {

void append_lists(const std::vector<std::vector<int>>& lists, std::vector<int>& begin, std::vector<int>& all) {
  begin.push_back(0);
  for (const std::vector<int>& list : lists) {
    all.insert(all.end(), list.begin(), list.end());
    begin.push_back(static_cast<int>(all.size()));
  }
}

}  // namespace

FlatProblem::FlatProblem(const Problem& problem, bool with_copies)
    : copy_out_(problem.values.size(), -1), num_operations_(static_cast<int>(problem.operations.size())) {
  std::vector<std::vector<int>> ins, outs;
  for (const Operation& operation : problem.operations) {
    seconds.push_back(operation.seconds);
    seconds_again.push_back(planning::seconds_again(operation));
    workspace.push_back(operation.workspace);
    repeatable.push_back(operation.repeatable ? 1 : 0);
    ins.push_back(operation.inputs);
    outs.push_back(operation.outputs);
    overwrites_begin_.push_back(static_cast<int>(overwrites_.size()));
    overwrites_.insert(overwrites_.end(), operation.overwrites.begin(), operation.overwrites.end());
  }
  overwrites_begin_.push_back(static_cast<int>(overwrites_.size()));
  if (with_copies) add_copies(problem, ins, outs);
  const std::size_t count = ins.size();
  std::vector<std::vector<int>> before(count), after(count), ended_by(count), ends(count);
  for (const auto* pairs : {&problem.order, &problem.ends}) {
    for (const auto& [first, second] : *pairs) {
      before[pos(second)].push_back(first);
      after[pos(first)].push_back(second);
    }
  }
  for (const auto& [first, second] : problem.ends) {
    ended_by[pos(first)].push_back(second);
    ends[pos(second)].push_back(first);
  }
  append_lists(ins, input_begin, inputs);
  append_lists(outs, output_begin, outputs);
  append_lists(before, before_begin_, before_);
  append_lists(after, after_begin_, after_);
  append_lists(ended_by, ended_by_begin_, ended_by_);
  append_lists(ends, ends_begin_, ends_);
  for (const PlannedValue& value : problem.values) {
    bytes.push_back(value.bytes);
    producer.push_back(value.producer);
    at_end.push_back(value.needed_at_end ? 1 : 0);
    movable.push_back(value.movable ? 1 : 0);
  }
}

void FlatProblem::add_copies(const Problem& problem, std::vector<std::vector<int>>& ins,
                             std::vector<std::vector<int>>& outs) {
  for (std::size_t i = 0; i < problem.values.size(); ++i) {
    if (!problem.values[i].movable || problem.values[i].bytes == 0) continue;
    const int value = static_cast<int>(i);
    copied_.push_back(value);
    copy_out_[i] = static_cast<int>(seconds.size());
    for (const bool is_in : {false, true}) {
      seconds.push_back(0);
      seconds_again.push_back(0);
      workspace.push_back(0);
      repeatable.push_back(is_in ? 1 : 0);
      ins.push_back(is_in ? std::vector<int>{} : std::vector<int>{value});
      outs.push_back(is_in ? std::vector<int>{value} : std::vector<int>{});
      overwrites_begin_.push_back(static_cast<int>(overwrites_.size()));
    }
  }
}

}  // namespace sectionflow::planning

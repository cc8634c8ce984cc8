#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "fit/list_problem.h"
#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

using Kind = planning::PlanStep::Kind;

std::size_t pos(int index) {
  return static_cast<std::size_t>(index);
}

/// A copy of a plan, and before which executions it stands.
struct PlacedCopy {
  Kind kind = Kind::out;
  int value = 0;
  int place = 0;       // it begins
  int over = 0;        // the first execution that begins when it is over; their number: none
  bool holds = false;  // what it reads is kept until then
};

/// Where the copies of a plan stand in the list of its executions, by the times that they have.
class CopyPlaces {
 public:
  CopyPlaces(const planning::Problem& problem, const planning::Plan& plan, std::vector<planning::StepSpan> spans)
      : problem_(problem), uses_(problem.values.size()) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      if (plan.steps[i].kind == Kind::compute) add_execution(plan.steps[i].id, spans[i]);
    }
    int executed = 0;
    std::map<int, std::size_t> outs, last_ins;  // copies, by value
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const auto& [kind, id] = plan.steps[i];
      if (kind == Kind::compute) ++executed;
      if (kind == Kind::out) {
        outs[id] = copies_.size();
        copies_.push_back(placed(kind, id, executed, spans[i]));
      }
      if (kind != Kind::in) continue;
      const PlacedCopy back = placed(kind, id, executed, spans[i]);
      // Whoever used the value last is not done with it: it need not have left.
      if (back.place > 0 && times_[pos(back.place - 1)].end > spans[i].begin) continue;
      last_ins[id] = copies_.size();
      copies_.push_back(back);
    }
    for (const auto& [value, last] : last_ins) {
      copies_[last].holds = copies_[last].over > copies_[last].place && copies_[last].over < count();
      hold_until_out(copies_[outs.at(value)]);
    }
    std::erase_if(copies_, [&](const PlacedCopy& copy) { return !last_ins.contains(copy.value); });
  }

  /// In the plan's order.
  const std::vector<PlacedCopy>& copies() const { return copies_; }

 private:
  struct Use {
    int execution = 0;
    bool writes = false;
  };

  int count() const { return static_cast<int>(times_.size()); }

  void add_execution(int operation, const planning::StepSpan& span) {
    for (const int value : problem_.operations[pos(operation)].inputs) uses_[pos(value)].push_back({count(), false});
    for (const int value : problem_.operations[pos(operation)].outputs) uses_[pos(value)].push_back({count(), true});
    times_.push_back(span);
  }

  /// Behind the executions that are over when it begins; a copy out at least behind what writes the value, a copy in
  /// behind all that uses it.
  PlacedCopy placed(Kind kind, int value, int executed, const planning::StepSpan& span) const {
    PlacedCopy copy{.kind = kind, .value = value, .place = executed};
    const auto must_follow = [&](int execution) {
      return std::ranges::any_of(uses_[pos(value)], [&](const Use& use) {
        return use.execution == execution && (use.writes || kind == Kind::in);
      });
    };
    while (copy.place > 0 && times_[pos(copy.place - 1)].end > span.begin && !must_follow(copy.place - 1)) --copy.place;
    copy.over = copy.place;
    while (copy.over < count() && times_[pos(copy.over)].begin < span.end) ++copy.over;
    return copy;
  }

  /// The value stays until it has left, or is made or copied back anew, where nobody reads it as late.
  void hold_until_out(PlacedCopy& out) const {
    for (const PlacedCopy& copy : copies_) {
      if (copy.kind == Kind::in && copy.value == out.value) out.over = std::min(out.over, copy.place);
    }
    int last_use = out.place - 1;
    for (const Use& use : uses_[pos(out.value)]) {
      if (use.execution < out.place) continue;
      if (use.writes) out.over = std::min(out.over, use.execution);
      if (use.execution < out.over) last_use = use.execution;
    }
    out.holds = out.over > last_use + 1;
  }

  const planning::Problem& problem_;
  std::vector<planning::StepSpan> times_;  // of executions
  std::vector<std::vector<Use>> uses_;     // of each value, ascending
  std::vector<PlacedCopy> copies_;
};

}  // namespace

/// Writes executions, instruction by instruction.
class ListProblem::Writer {
 public:
  explicit Writer(const ListProblem& problem) : problem_(problem), executed_(problem.instructions_.size(), false) {
    planned_.passes = problem.list_.passes;
  }

  void execute(int operation) {
    const InstructionList& list = problem_.list_;
    const bool again = executed_[pos(operation)];
    executed_[pos(operation)] = true;
    for (const int index : problem_.instructions_[pos(operation)]) {
      Instruction instruction = list.instructions[pos(index)];
      if (again) {
        instruction.replay = makes_step(instruction, *problem_.graph_);
        repeats_.push_back(planned_.instructions.size());
      } else {
        for (const std::size_t repeat : repeats_) planned_.instructions[repeat].pass = instruction.pass;
        repeats_.clear();
        if (index < list.half) planned_.half = size() + 1;
      }
      planned_.instructions.push_back(instruction);
    }
  }

  int size() const { return static_cast<int>(planned_.instructions.size()); }

  InstructionList written() {
    const bool has_halves = problem_.list_.half < static_cast<int>(problem_.list_.instructions.size());
    if (!has_halves) planned_.half = size();
    return std::move(planned_);
  }

 private:
  const ListProblem& problem_;
  std::vector<bool> executed_;
  std::vector<std::size_t> repeats_;  // of which the pass is not known yet
  InstructionList planned_;
};

InstructionList ListProblem::list_of(std::span<const int> order) const {
  Writer writer(*this);
  for (const int operation : order) writer.execute(operation);
  return writer.written();
}

InstructionList ListProblem::list_of(const planning::Plan& plan, const planning::Limits& limits) const {
  const int first_offload = unused_offload(list_);
  SF_CHECK(first_offload == 0 && list_.half == static_cast<int>(list_.instructions.size()), InternalError,
           "ListProblem: a plan with copies for a list that has offloads or halves");
  Writer writer(*this);
  std::vector<int> places;  // of executions, among the instructions
  for (const int operation : executions_of(plan)) {
    places.push_back(writer.size());
    writer.execute(operation);
  }
  places.push_back(writer.size());
  const CopyPlaces copies(problem_, plan, planning::spans_of(problem_, plan, limits));
  std::map<int, int> offloads;  // by value
  std::vector<Insertion> insertions;
  const auto add = [&](int place, StepKind kind, int value, int offload) {
    insertions.push_back(
        {places[pos(place)], turn_of(kind, false), {.kind = kind, .fetched = values_[pos(value)], .offload = offload}});
  };
  for (const PlacedCopy& copy : copies.copies()) {
    const bool leaves = copy.kind == Kind::out;
    const int offload = offloads.try_emplace(copy.value, static_cast<int>(offloads.size())).first->second;
    add(copy.place, leaves ? StepKind::copy_out : StepKind::copy_in, copy.value, offload);
    if (copy.holds) add(copy.over, StepKind::hold, copy.value, leaves ? -1 : offload);
  }
  return with_insertions(writer.written(), std::move(insertions));
}

std::vector<int> executions_of(const planning::Plan& plan) {
  std::vector<int> order;
  for (const planning::PlanStep& step : plan.steps) {
    if (step.kind == planning::PlanStep::Kind::compute) order.push_back(step.id);
  }
  return order;
}

}  // namespace sectionflow

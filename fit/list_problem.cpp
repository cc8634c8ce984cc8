#include "fit/list_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/nodes_before.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

bool is_offload(const Instruction& instruction) {
  return is_transfer(instruction.kind);
}

/// Whether an instruction is a step of its own; an identity only gives a buffer another name.
bool makes_step(const Instruction& instruction, const ConcreteGraph& graph) {
  return instruction.kind != StepKind::compute || !graph.is_identity(instruction.node);
}

/// Constants of less than a page, such as numbers that tensors are scaled by, are not worth the planner's questions:
/// they stay from when they are there, and count nothing.
bool is_small_constant(const Node& node) {
  constexpr std::size_t kPage = 4096;
  return node.op().is_constant() && node.output_types()[0].shape.is_static() && node.output_types()[0].bytes() < kPage;
}

/// Whether the planner may say that it is done again.
bool is_repeatable(const Instruction& instruction, const ConcreteGraph& graph) {
  if (instruction.kind == StepKind::feed) return true;
  if (instruction.kind != StepKind::compute) return false;
  const Node& node = graph.graph().node(instruction.node);
  return node.op().recompute != Recompute::once && !node.op().is_update() && !is_small_constant(node);
}

}  // namespace

/// One step with the instructions that it comes from, or steps that are executed together.
struct ListProblem::Unit {
  struct Part {
    std::vector<int> inputs, outputs;             // buffers, each once
    std::vector<planning::Overwrite> overwrites;  // buffers of equal bytes
    std::int64_t workspace = 0;
  };
  std::vector<int> instructions;
  std::vector<Part> parts;
  std::vector<NodeId> reads, changes;  // variables
  double seconds = 0, seconds_again = 0;
  bool repeatable = false;

  void join(Unit after) {
    const auto append = [](auto& all, auto& more) { all.insert(all.end(), more.begin(), more.end()); };
    append(instructions, after.instructions);
    append(parts, after.parts);
    append(reads, after.reads);
    append(changes, after.changes);
    seconds += after.seconds;
    seconds_again += after.seconds_again;
  }
};

/// Goes through list and draft side by side.
class ListProblem::UnitWriter {
 public:
  UnitWriter(const InstructionList& list, const Draft& draft, const PlanningTools& tools,
             const std::vector<double>& seconds, const std::vector<double>& seconds_again, InPlaceRuns runs)
      : runs_(runs),
        list_(list),
        draft_(draft),
        graph_(tools.graph()),
        kernels_(tools.kernels()),
        seconds_(seconds),
        seconds_again_(seconds_again),
        maker_(buffers().size(), -1),
        num_readers_(buffers().size(), 0) {
    for (std::size_t i = 0; i < buffers().size(); ++i) {
      for (const Value& name : buffers()[i].other_names) named_.emplace(name, i);
    }
    for (const Step& step : draft.schedule.steps) {
      for (const Operand& input : step.inputs) {
        if (is_planned(input)) ++num_readers_[at(input.index)];
      }
    }
  }

  std::vector<Unit> units() {
    std::size_t step = 0;
    for (std::size_t i = 0; i < list_.instructions.size(); ++i) {
      const Instruction& instruction = list_.instructions[i];
      if (!makes_step(instruction, graph_)) {
        name_again(graph_.graph().node(instruction.node).output(), static_cast<int>(i));
        continue;
      }
      // Copies are of variables whose home tier is the host; no instruction of the list says them.
      while (is_transfer(draft_.schedule.steps.at(step).kind)) ++step;
      add(static_cast<int>(i), step++);
    }
    return std::move(units_);
  }

 private:
  const std::vector<Buffer>& buffers() const { return draft_.schedule.buffers; }
  /// Whether it is a value of the problem: no variable.
  bool is_planned(const Operand& operand) const {
    return operand.kind == Operand::Kind::buffer && !is_variable(buffers()[at(operand.index)].value);
  }
  NodeId variable_of(const Operand& operand) const {
    return operand.kind == Operand::Kind::variable ? operand.index : buffers()[at(operand.index)].value.node().id();
  }

  /// The instruction goes wherever goes what makes the buffer that it gives another name.
  void name_again(Value name, int instruction) {
    const auto named = named_.find(name);
    SF_CHECK(named != named_.end() && maker_[named->second] >= 0, InternalError, "ListProblem: '", name.name(),
             "' is another name of nothing");
    units_[at(maker_[named->second])].instructions.push_back(instruction);
  }

  void add(int instruction, std::size_t index) {
    const Step& step = draft_.schedule.steps[index];
    Unit unit;
    unit.instructions = {instruction};
    unit.seconds = seconds_[index];
    unit.seconds_again = seconds_again_[index];
    unit.repeatable = is_repeatable(list_.instructions[at(instruction)], graph_);
    Unit::Part part;
    for (const Operand& input : step.inputs) {
      if (is_planned(input)) {
        if (std::find(part.inputs.begin(), part.inputs.end(), input.index) == part.inputs.end())
          part.inputs.push_back(input.index);
      } else if (input.kind != Operand::Kind::none) {
        unit.reads.push_back(variable_of(input));
      }
    }
    for (const Operand& changed : step.updated) unit.changes.push_back(variable_of(changed));
    if (step.workspace.kind == Operand::Kind::buffer)
      part.workspace = static_cast<std::int64_t>(round_up(buffers()[at(step.workspace.index)].bytes));
    for (const Operand& output : step.outputs) {
      if (output.kind == Operand::Kind::buffer) part.outputs.push_back(output.index);
    }
    add_overwrites(step, part);
    const bool joins =
        runs_ == InPlaceRuns::joined && writes_over_last(part) && unit.repeatable == units_.back().repeatable;
    if (!joins) units_.emplace_back();
    for (const int output : part.outputs) maker_[at(output)] = static_cast<int>(units_.size()) - 1;
    unit.parts.push_back(std::move(part));
    joins ? units_.back().join(std::move(unit)) : void(units_.back() = std::move(unit));
  }

  /// As assign_storages lays outputs over inputs that nobody reads afterwards.
  void add_overwrites(const Step& step, Unit::Part& part) const {
    if (step.kind != StepKind::compute) return;
    for (const InPlace& pair : kernels_[at(step.slot)]->in_place()) {
      const Operand& from = step.inputs[at(pair.input)];
      const Operand& to = step.outputs[at(pair.output)];
      if (!is_planned(from) || to.kind != Operand::Kind::buffer) continue;
      const bool is_same_size = buffers()[at(from.index)].bytes == buffers()[at(to.index)].bytes;
      const bool is_read_once = std::count(step.inputs.begin(), step.inputs.end(), from) == 1;
      if (is_same_size && is_read_once) part.overwrites.push_back({from.index, to.index});
    }
  }

  /// Whether an output lies over what the last unit makes and nobody else reads.
  bool writes_over_last(const Unit::Part& part) const {
    const std::vector<int>& storages = draft_.storage.storage_of_buffer;
    return std::any_of(part.inputs.begin(), part.inputs.end(), [&](int input) {
      const bool lies_under = std::any_of(part.outputs.begin(), part.outputs.end(),
                                          [&](int output) { return storages[at(output)] == storages[at(input)]; });
      return lies_under && num_readers_[at(input)] == 1 && !units_.empty() &&
             maker_[at(input)] == static_cast<int>(units_.size()) - 1;
    });
  }

  const InPlaceRuns runs_;
  const InstructionList& list_;
  const Draft& draft_;
  const ConcreteGraph& graph_;
  const std::vector<std::unique_ptr<Kernel>>& kernels_;
  const std::vector<double>&seconds_, &seconds_again_;
  std::map<Value, std::size_t> named_;    // buffers by their other names
  std::vector<int> maker_, num_readers_;  // of each buffer: the unit; steps
  std::vector<Unit> units_;
};

ListProblem::ListProblem(InstructionList list, const Draft& draft, const PlanningTools& tools,
                         const std::vector<double>& seconds, const std::vector<double>& seconds_again, InPlaceRuns runs)
    : list_(std::move(list)), graph_(&tools.graph()) {
  const bool moves = std::any_of(list_.instructions.begin(), list_.instructions.end(), is_offload);
  SF_CHECK(!moves && list_.entries.empty(), InternalError, "ListProblem: something is offloaded or was there before");
  const std::vector<Unit> units = UnitWriter(list_, draft, tools, seconds, seconds_again, runs).units();
  add_operations(draft, units);
  add_order(units);
  planning::check_problem(problem_);
}

void ListProblem::add_operations(const Draft& draft, const std::vector<Unit>& units) {
  const std::vector<Buffer>& buffers = draft.schedule.buffers;
  const auto storage_of = [&](int buffer) { return draft.storage.storage_of_buffer[at(buffer)]; };
  const auto bytes_of = [&](int buffer) -> std::int64_t {
    const Value& value = buffers[at(buffer)].value;
    if (value.valid() && is_small_constant(value.node())) return 0;
    return static_cast<std::int64_t>(round_up(draft.storage.storages[at(storage_of(buffer))].bytes));
  };
  std::vector<int> maker(buffers.size(), -1), last_reader(buffers.size(), -1), value_of(buffers.size(), -1);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const Unit::Part& part : units[u].parts) {
      for (const int output : part.outputs) maker[at(output)] = static_cast<int>(u);
      for (const int input : part.inputs) last_reader[at(input)] = static_cast<int>(u);
    }
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Unit& unit = units[u];
    const Instruction& first = list_.instructions[at(unit.instructions.front())];
    const NodeId node =
        first.kind == StepKind::fetch || first.kind == StepKind::hold ? first.fetched.node().id() : first.node;
    planning::Operation operation;
    operation.name = graph_->graph().node(node).name();
    operation.seconds = unit.seconds;
    operation.seconds_again = unit.seconds_again;
    operation.repeatable = unit.repeatable;
    std::int64_t outputs = 0, most = 0;
    std::set<int> there;  // storages of what the unit has written
    for (const Unit::Part& part : unit.parts) {
      for (const int input : part.inputs) {
        const bool own = maker[at(input)] == static_cast<int>(u);
        const bool known =
            std::find(operation.inputs.begin(), operation.inputs.end(), value_of[at(input)]) != operation.inputs.end();
        if (!own && !known) operation.inputs.push_back(value_of[at(input)]);
      }
      std::int64_t bytes = part.workspace;
      for (const int output : part.outputs) there.insert(storage_of(output));
      for (const int storage : there)
        bytes += static_cast<std::int64_t>(round_up(draft.storage.storages[at(storage)].bytes));
      most = std::max(most, bytes);
      for (const int output : part.outputs) {
        if (last_reader[at(output)] == static_cast<int>(u)) continue;  // nobody else sees it
        value_of[at(output)] = static_cast<int>(problem_.values.size());
        operation.outputs.push_back(value_of[at(output)]);
        problem_.values.push_back({.name = buffers[at(output)].value.name(),
                                   .bytes = bytes_of(output),
                                   .producer = static_cast<int>(u),
                                   .movable = true,
                                   .needed_at_end = false});
        outputs += bytes_of(output);
      }
    }
    operation.workspace = std::max<std::int64_t>(most - outputs, 0);
    add_overwrites(draft, unit, value_of, operation);
    problem_.operations.push_back(std::move(operation));
    instructions_.push_back(unit.instructions);
  }
}

/// A part's output has another name at the unit's end where a later part writes over it.
void ListProblem::add_overwrites(const Draft& draft, const Unit& unit, const std::vector<int>& value_of,
                                 planning::Operation& operation) const {
  const std::vector<int>& storages = draft.storage.storage_of_buffer;
  for (auto part = unit.parts.begin(); part != unit.parts.end(); ++part) {
    for (const auto& [input, output] : part->overwrites) {
      const int from = value_of[at(input)];
      const bool is_outside =
          std::find(operation.inputs.begin(), operation.inputs.end(), from) != operation.inputs.end();
      const bool is_read_later = std::any_of(part + 1, unit.parts.end(), [buffer = input](const Unit::Part& later) {
        return std::find(later.inputs.begin(), later.inputs.end(), buffer) != later.inputs.end();
      });
      if (!is_outside || is_read_later) continue;
      for (const Unit::Part& later : unit.parts) {
        for (const int buffer : later.outputs) {
          const int to = value_of[at(buffer)];
          if (to < 0 || storages[at(buffer)] != storages[at(output)]) continue;
          if (problem_.values[at(from)].bytes == problem_.values[at(to)].bytes)
            operation.overwrites.push_back({from, to});
        }
      }
    }
  }
}

void ListProblem::add_order(const std::vector<Unit>& units) {
  std::map<NodeId, int> operation_of;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const int index : units[u].instructions) {
      const Instruction& instruction = list_.instructions[at(index)];
      if (instruction.kind == StepKind::compute || instruction.kind == StepKind::feed)
        operation_of[instruction.node] = static_cast<int>(u);
    }
  }
  std::set<std::pair<int, int>> order, ends;
  NodesBefore before(*graph_, operation_of);
  for (const auto& [node, operation] : operation_of) {
    for (const int other : before.of(node)) {
      if (other < operation) order.emplace(other, operation);
    }
  }
  // Who reads a variable reads it before the same updates as in the list, and after the same.
  struct Access {
    std::vector<int> readers;  // since the latest update
    int update = -1;
  };
  std::map<NodeId, Access> accesses;
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    const Unit& unit = units[at(u)];
    for (const NodeId variable : unit.reads) {
      Access& access = accesses[variable];
      if (access.update >= 0 && access.update != u) order.emplace(access.update, u);
      access.readers.push_back(u);
    }
    for (const NodeId variable : unit.changes) {
      Access& access = accesses[variable];
      if (access.update >= 0 && access.update != u) order.emplace(access.update, u);
      for (const int reader : access.readers) {
        if (reader != u) ends.emplace(reader, u);
      }
      access = {{}, u};
    }
  }
  problem_.order.assign(order.begin(), order.end());
  problem_.ends.assign(ends.begin(), ends.end());
}

InstructionList ListProblem::list_of(std::span<const int> order) const {
  InstructionList planned;
  planned.passes = list_.passes;
  std::vector<bool> executed(instructions_.size(), false);
  std::vector<std::size_t> repeats;  // of which the pass is not known yet
  const int num_forward = list_.half;
  const bool has_halves = num_forward < static_cast<int>(list_.instructions.size());
  for (const int operation : order) {
    const bool again = executed[at(operation)];
    executed[at(operation)] = true;
    for (const int index : instructions_[at(operation)]) {
      Instruction instruction = list_.instructions[at(index)];
      const bool is_step = makes_step(instruction, *graph_);
      if (again) {
        instruction.replay = is_step;
        repeats.push_back(planned.instructions.size());
      } else {
        for (const std::size_t repeat : repeats) planned.instructions[repeat].pass = instruction.pass;
        repeats.clear();
        if (index < num_forward) planned.half = static_cast<int>(planned.instructions.size()) + 1;
      }
      planned.instructions.push_back(instruction);
    }
  }
  if (!has_halves) planned.half = static_cast<int>(planned.instructions.size());
  return planned;
}

std::vector<int> executions_of(const planning::Plan& plan) {
  std::vector<int> order;
  for (const planning::PlanStep& step : plan.steps) {
    if (step.kind == planning::PlanStep::Kind::compute) order.push_back(step.id);
  }
  return order;
}

}  // namespace sectionflow

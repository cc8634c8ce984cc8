#include "fit/list_units.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/ops/basic.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

/// Whether the planner may say that it is done again.
bool is_repeatable(const Instruction& instruction, const ConcreteGraph& graph, const MayRepeat& may_repeat) {
  if (instruction.kind == StepKind::feed) return true;
  if (instruction.kind != StepKind::compute) return false;
  const Node& node = graph.graph().node(instruction.node);
  if (may_repeat && !node.op().is_constant() && !may_repeat(node)) return false;
  return node.op().recompute != Recompute::once && !node.op().is_update() && !is_small_constant(node);
}

/// Goes through list and draft side by side.
class UnitWriter {
 public:
  UnitWriter(const InstructionList& list, const Draft& draft, const PlanningTools& tools, const StepSeconds& seconds,
             InPlaceRuns runs, const MayRepeat& may_repeat)
      : runs_(runs),
        may_repeat_(may_repeat),
        list_(list),
        draft_(draft),
        graph_(tools.graph()),
        kernels_(tools.kernels()),
        seconds_(seconds.first),
        seconds_again_(seconds.again),
        maker_(buffers().size(), -1),
        num_readers_(buffers().size(), 0),
        strips_(strips_of(draft.schedule.steps)) {
    for (std::size_t i = 0; i < buffers().size(); ++i) {
      for (const Value& name : buffers()[i].other_names) named_[name].push_back(i);
    }
    for (const Step& step : draft.schedule.steps) {
      for (const Operand& input : step.inputs) {
        if (is_planned(input)) ++num_readers_[at(input.index)];
      }
    }
  }

  std::vector<ListUnit> units() {
    for (std::size_t i = 0; i < list_.instructions.size(); ++i) {
      const Instruction& instruction = list_.instructions[i];
      if (!makes_step(instruction, graph_)) {
        name_again(instruction.node, static_cast<int>(i));
        continue;
      }
      add(static_cast<int>(i), static_cast<std::size_t>(step_of_instruction(i)));
    }
    return std::move(units_);
  }

 private:
  const std::vector<Buffer>& buffers() const { return draft_.schedule.buffers; }
  /// Past copies of variables whose home tier is the host, which no instruction of the list says.
  StepIndex step_of_instruction(std::size_t instruction) const {
    StepIndex step = draft_.schedule.step_of_instruction[instruction];
    const auto is_variables_copy = [](const Step& each) { return is_transfer(each.kind) && each.offload < 0; };
    while (is_variables_copy(draft_.schedule.steps.at(at(step)))) ++step;
    return step;
  }
  /// Whether it is a value of the problem: on the device, and no variable.
  bool is_planned(const Operand& operand) const {
    if (operand.kind != Operand::Kind::buffer) return false;
    const Buffer& buffer = buffers()[at(operand.index)];
    return buffer.tier == Tier::device && !is_variable(buffer.value);
  }
  bool is_variables(const Operand& operand) const {
    return operand.kind == Operand::Kind::variable ||
           (operand.kind == Operand::Kind::buffer && is_variable(buffers()[at(operand.index)].value));
  }
  NodeId variable_of(const Operand& operand) const {
    return operand.kind == Operand::Kind::variable ? operand.index : buffers()[at(operand.index)].value.node().id();
  }

  /// The instruction goes wherever goes what makes the buffer that it gives another name: of several the latest. Where
  /// it stands there already, once is enough, of each part.
  void name_again(NodeId node, int instruction) {
    const Value name = graph_.graph().node(node).output();
    int maker = -1;
    if (const auto named = named_.find(name); named != named_.end()) {
      for (const std::size_t buffer : named->second) maker = std::max(maker, maker_[buffer]);
    }
    SF_CHECK(maker >= 0, InternalError, "ListProblem: '", name.name(), "' is another name of nothing");
    std::vector<int>& instructions = units_[at(maker)].instructions;
    const bool is_there = std::any_of(instructions.begin(), instructions.end(), [&](int other) {
      const Instruction& there = list_.instructions[at(other)];
      return there.kind == StepKind::compute && there.node == node &&
             there.part == list_.instructions[at(instruction)].part;
    });
    if (!is_there) instructions.push_back(instruction);
  }

  void add(int instruction, std::size_t index) {
    const Step& step = draft_.schedule.steps[index];
    ListUnit unit;
    unit.instructions = {instruction};
    unit.seconds = seconds_[index];
    unit.seconds_again = seconds_again_[index];
    unit.repeatable = is_repeatable(list_.instructions[at(instruction)], graph_, may_repeat_);
    ListUnit::Execution execution{.step = static_cast<StepIndex>(index), .inputs = {}, .outputs = {}, .overwrites = {}};
    const auto add_input = [&](int buffer) {
      if (std::find(execution.inputs.begin(), execution.inputs.end(), buffer) == execution.inputs.end())
        execution.inputs.push_back(buffer);
    };
    for (const Operand& input : step.inputs) {
      if (is_planned(input)) add_input(input.index);
      if (is_variables(input)) unit.reads.push_back(variable_of(input));
    }
    for (const Operand& changed : step.updated) unit.changes.push_back(variable_of(changed));
    if (step.workspace.kind == Operand::Kind::buffer && !is_scratch_of_ranks(buffers()[at(step.workspace.index)]))
      execution.workspace = static_cast<std::int64_t>(round_up(buffers()[at(step.workspace.index)].bytes));
    for (const Operand& output : step.outputs) {
      if (!is_planned(output)) continue;
      // What a replay finds kept it only reads.
      maker_[at(output.index)] >= 0 ? add_input(output.index) : execution.outputs.push_back(output.index);
    }
    add_overwrites(step, execution);
    const int strip = strips_[index];
    const bool writes_over = runs_ == InPlaceRuns::joined && writes_over_last(execution);
    const bool joins =
        (strip >= 0 && strip == last_strip_) || (writes_over && unit.repeatable == units_.back().repeatable);
    last_strip_ = strip;
    if (!joins) units_.emplace_back();
    for (const int output : execution.outputs) maker_[at(output)] = static_cast<int>(units_.size()) - 1;
    unit.executions.push_back(std::move(execution));
    joins ? units_.back().join(std::move(unit)) : void(units_.back() = std::move(unit));
  }

  /// As assign_storages lays outputs over inputs that nobody reads afterwards.
  void add_overwrites(const Step& step, ListUnit::Execution& execution) const {
    // Within a strip parts lie over each other, which its storages tell; over what is whole no part is written.
    if (step.kind != StepKind::compute || step.parts > 1) return;
    for (const InPlace& pair : kernels_[at(step.slot)]->in_place()) {
      const Operand& from = step.inputs[at(pair.input)];
      const Operand& to = step.outputs[at(pair.output)];
      if (!is_planned(from) || !is_planned(to)) continue;
      const bool is_same_size = buffers()[at(from.index)].bytes == buffers()[at(to.index)].bytes;
      const bool is_read_once = std::count(step.inputs.begin(), step.inputs.end(), from) == 1;
      if (is_same_size && is_read_once) execution.overwrites.push_back({from.index, to.index});
    }
  }

  /// Whether an output lies over what the last unit makes and nobody else reads.
  bool writes_over_last(const ListUnit::Execution& execution) const {
    const std::vector<int>& storages = draft_.storage.storage_of_buffer;
    return std::any_of(execution.inputs.begin(), execution.inputs.end(), [&](int input) {
      const bool lies_under = std::any_of(execution.outputs.begin(), execution.outputs.end(),
                                          [&](int output) { return storages[at(output)] == storages[at(input)]; });
      return lies_under && num_readers_[at(input)] == 1 && !units_.empty() &&
             maker_[at(input)] == static_cast<int>(units_.size()) - 1;
    });
  }

  const InPlaceRuns runs_;
  const MayRepeat& may_repeat_;
  const InstructionList& list_;
  const Draft& draft_;
  const ConcreteGraph& graph_;
  const std::vector<std::unique_ptr<Kernel>>& kernels_;
  const std::vector<double>&seconds_, &seconds_again_;
  std::map<Value, std::vector<std::size_t>> named_;  // buffers by their other names
  std::vector<int> maker_, num_readers_;             // of each buffer: the unit; steps
  const std::vector<int> strips_;                    // of the steps
  int last_strip_ = -1;                              // of the step that was added last
  std::vector<ListUnit> units_;
};

}  // namespace

bool makes_step(const Instruction& instruction, const ConcreteGraph& graph) {
  return instruction.kind != StepKind::compute || !graph.is_identity(instruction.node);
}

bool is_small_constant(const Node& node) {
  constexpr std::size_t kPage = 4096;
  return node.op().is_constant() && node.output_types()[0].shape.is_static() && node.output_types()[0].bytes() < kPage;
}

std::vector<ListUnit> list_units(const InstructionList& list, const Draft& draft, const PlanningTools& tools,
                                 const StepSeconds& seconds, InPlaceRuns runs, const MayRepeat& may_repeat) {
  return UnitWriter(list, draft, tools, seconds, runs, may_repeat).units();
}

}  // namespace sectionflow

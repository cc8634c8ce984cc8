#include "fit/same_results.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "fit/nodes_before.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Variables with how often each has been updated.
using Versions = std::vector<std::pair<NodeId, int>>;

/// Goes through a list and tells what each instruction finds in the variables that it reads or changes.
class VariableVersions {
 public:
  explicit VariableVersions(const ConcreteGraph& graph) : graph_(graph) {}

  Versions next(const Instruction& instruction) {
    Versions found;
    const auto add = [&](const Value& value) {
      if (is_variable(value)) found.emplace_back(value.node().id(), updates_[value.node().id()]);
    };
    if (instruction.kind != StepKind::compute) {
      if (instruction.fetched.valid()) add(instruction.fetched);
      return found;
    }
    const Node& node = graph_.graph().node(instruction.node);
    for (const Value& value : graph_.reads(instruction.node)) add(value);
    for (const int index : node.op().updated_inputs) add(node.inputs()[as_index(index)]);
    for (const int index : node.op().updated_inputs) ++updates_[node.inputs()[as_index(index)].node().id()];
    return found;
  }

 private:
  const ConcreteGraph& graph_;
  std::map<NodeId, int> updates_;
};

class Comparison {
 public:
  explicit Comparison(const ListToBe& wanted)
      : wanted_(wanted), before_(wanted.graph, first_of_), executions_(instructions().size(), 0) {
    VariableVersions versions(wanted.graph);
    for (std::size_t i = 0; i < instructions().size(); ++i) {
      const Instruction& instruction = instructions()[i];
      versions_.push_back(versions.next(instruction));
      if (is_node(instruction)) first_of_.try_emplace(instruction.node, static_cast<int>(i));
    }
  }

  void check(const InstructionList& list, const std::vector<PlannedInstruction>& planned) {
    VariableVersions versions(wanted_.graph);
    for (std::size_t i = 0; i < list.instructions.size(); ++i) {
      const Versions found = versions.next(list.instructions[i]);
      if (planned[i].written < 0) continue;
      check_execution(planned[i], found, static_cast<int>(i) < list.half);
    }
    for (std::size_t i = 0; i < instructions().size(); ++i) {
      const bool is_first = !is_node(instructions()[i]) || first_of_.at(instructions()[i].node) == static_cast<int>(i);
      if (is_first && instructions()[i].kind != StepKind::hold && executions_[i] == 0)
        refuse(static_cast<int>(i), "is never executed");
    }
  }

 private:
  static bool is_node(const Instruction& instruction) {
    return instruction.kind == StepKind::compute || instruction.kind == StepKind::feed;
  }
  const std::vector<Instruction>& instructions() const { return wanted_.written.instructions; }

  /// Whether it may be executed any number of times.
  bool may_repeat(const Instruction& instruction) const {
    if (instruction.kind == StepKind::feed || instruction.kind == StepKind::hold) return true;
    if (instruction.kind != StepKind::compute) return false;
    const OpDef& op = wanted_.graph.graph().node(instruction.node).op();
    return op.recompute != Recompute::once && !op.is_update();
  }

  void check_execution(const PlannedInstruction& planned, const Versions& found, bool in_forward_half) {
    // All executions of a node count as those of its first instruction.
    const Instruction& instruction = instructions()[as_index(planned.written)];
    const int place = is_node(instruction) ? first_of_.at(instruction.node) : planned.written;
    const bool again = executions_[as_index(place)]++ > 0;
    if (again && !may_repeat(instruction)) refuse(place, "is executed twice");
    if (found != versions_[as_index(place)])
      refuse(place, "finds a variable as it is behind another update than in the program");
    const bool may_be_replay = again || instructions()[as_index(place)].replay;
    if (planned.replay && !may_be_replay) refuse(place, "is said to be executed again where it is for the first time");
    if (again) return;
    if (in_forward_half != (place < wanted_.written.half)) refuse(place, "is in the other half of the cycle");
    if (!is_node(instruction)) return;
    for (const int earlier : before_.of(instruction.node)) {
      if (earlier < place && executions_[as_index(earlier)] == 0) refuse(place, "comes before what it has to follow");
    }
  }

  [[noreturn]] void refuse(int place, const char* what) const {
    const Instruction& instruction = instructions()[as_index(place)];
    const Node& node = is_node(instruction) ? wanted_.graph.graph().node(instruction.node) : instruction.fetched.node();
    throw DataError(error_text_of(wanted_.where, node.label(), " ", what, hint("plan it anew and save that plan")),
                    ErrorCode::plan_file);
  }

  const ListToBe& wanted_;
  std::map<NodeId, int> first_of_;  // instruction of each node
  NodesBefore before_;
  std::vector<Versions> versions_;  // of each instruction
  std::vector<int> executions_;
};

}  // namespace

void check_same_results(const InstructionList& list, const std::vector<PlannedInstruction>& planned,
                        const ListToBe& wanted) {
  Comparison(wanted).check(list, planned);
}

}  // namespace sectionflow

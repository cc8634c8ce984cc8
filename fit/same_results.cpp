#include "fit/same_results.h"

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "fit/nodes_before.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "schedule/node_parts.h"

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
    for (const auto& [place, under_way] : under_way_) {
      if (under_way.next > 0) refuse(place, "runs in parts of which one is missing");
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
    check_part(planned, place);
    // All parts are one execution, which begins with the first.
    if (planned.part > 0) {
      if (found != versions_[as_index(place)])
        refuse(place, "finds a variable as it is behind another update than in the program");
      return;
    }
    const bool again = executions_[as_index(place)]++ > 0;
    if (again && !may_repeat(instruction)) refuse(place, "is executed twice");
    if (found != versions_[as_index(place)])
      refuse(place, "finds a variable as it is behind another update than in the program");
    const bool may_be_replay = again || instructions()[as_index(place)].replay;
    if (planned.replay && !may_be_replay) refuse(place, "is said to be executed again where it is for the first time");
    if (again) return;
    if (in_forward_half != (place < wanted_.written.half)) refuse(place, "is in the other half of the cycle");
    if (!is_node(instruction)) return;
    if (wanted_.graph.graph().node(instruction.node).op().communicates) {
      if (place < last_communication_) refuse(place, "communicates in another order than in the program");
      last_communication_ = place;
    }
    for (const int earlier : before_.of(instruction.node)) {
      if (earlier < place && executions_[as_index(earlier)] == 0) refuse(place, "comes before what it has to follow");
    }
  }

  /// An execution of which parts are still to come.
  struct UnderWay {
    int next = 0, parts = 1;
    bool is_replay = false;
  };

  /// Parts of an execution follow each other in their order, and as many as there are, of what may run in so many.
  void check_part(const PlannedInstruction& planned, int place) {
    UnderWay& under_way = under_way_[place];
    const bool goes_on = under_way.parts == planned.parts && under_way.is_replay == planned.replay;
    if (planned.part != under_way.next || (planned.part > 0 && !goes_on))
      refuse(place, "runs in parts of which one is missing");
    const bool is_over = planned.part + 1 >= planned.parts;
    under_way = {is_over ? 0 : planned.part + 1, planned.parts, planned.replay};
    if (planned.parts == 1) return;
    const Instruction& instruction = instructions()[as_index(place)];
    if (instruction.kind != StepKind::compute) refuse(place, "is nothing that runs in parts");
    if (wanted_.graph.is_identity(instruction.node)) return;
    const std::optional<NodeParts> parts = parts_of_node(wanted_.graph, instruction.node);
    if (!parts || !parts->may_be(planned.parts)) refuse(place, "does not run in so many parts");
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
  std::map<int, UnderWay> under_way_;  // by place
  int last_communication_ = -1;        // place of the last that communicates
};

}  // namespace

void check_same_results(const InstructionList& list, const std::vector<PlannedInstruction>& planned,
                        const ListToBe& wanted) {
  Comparison(wanted).check(list, planned);
}

}  // namespace sectionflow

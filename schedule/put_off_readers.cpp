#include "schedule/put_off_readers.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Communications of a stage where there are no sections: about those of a layer, its kernel and its bias.
constexpr int kCommunicationsAStage = 2;
constexpr int kLongAgo = -2;

class PuttingOff {
 public:
  PuttingOff(InstructionList list, const ConcreteGraph& graph) : graph_(graph), list_(std::move(list)) {}

  InstructionList finished() {
    std::vector<Instruction> instructions = std::exchange(list_.instructions, {});
    const int half = list_.half;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (static_cast<int>(i) == half) list_.half = static_cast<int>(list_.instructions.size());
      enter_stage_of(instructions[i]);
      take(std::move(instructions[i]));
    }
    release(stage_);
    if (half >= static_cast<int>(instructions.size())) list_.half = static_cast<int>(list_.instructions.size());
    return std::move(list_);
  }

 private:
  /// With its place among those that are put off.
  struct PutOff {
    std::size_t number;
    Instruction instruction;
  };

  const Node& node_of(const Instruction& instruction) const { return graph_.graph().node(instruction.node); }
  const Pass& pass(int index) const { return list_.passes[static_cast<std::size_t>(index)]; }
  bool communicates(const Instruction& instruction) const {
    return instruction.kind == StepKind::compute && node_of(instruction).op().communicates;
  }

  /// A stage ends with a backward run, or, where there are none, with the last of its communications.
  void enter_stage_of(const Instruction& instruction) {
    const bool is_next_pass = pass_ >= 0 && instruction.pass != pass_;
    const bool ends = is_next_pass ? pass(pass_).kind == Pass::Kind::backward
                                   : pass(instruction.pass).kind == Pass::Kind::whole && communicates(instruction) &&
                                         communications_ == kCommunicationsAStage;
    if (ends) {
      ++stage_;
      communications_ = 0;
      release(stage_ - 2);
    }
    if (communicates(instruction)) ++communications_;
    pass_ = instruction.pass;
  }

  /// Whether what came in that stage is not over yet, as far as the list knows.
  bool is_open(int stage) const { return stage > stage_ - 2; }

  template <class Key>
  static int stage_in(const std::map<Key, int>& stages, const Key& key) {
    const auto found = stages.find(key);
    return found == stages.end() ? kLongAgo : found->second;
  }

  /// The latest stage of which the instruction waits for something that is still open.
  int stage_of(const Instruction& instruction) const {
    int stage = kLongAgo;
    const auto wait = [&](int other) { stage = std::max(stage, other); };
    const auto read = [&](const Value& value) {
      wait(stage_in(values_, value));
      if (is_variable(value)) wait(stage_in(updated_, value.node().id()));
    };
    if (instruction.offload >= 0) wait(stage_in(offloads_, instruction.offload));
    if (instruction.kind == StepKind::feed || instruction.kind == StepKind::copy_in) return stage;
    if (instruction.kind != StepKind::compute) {
      if (instruction.fetched.valid()) read(instruction.fetched);
      return stage;
    }
    const Node& node = node_of(instruction);
    for (const Value& value : graph_.reads(instruction.node)) read(value);
    for (const int index : node.op().updated_inputs) {
      const NodeId variable = node.inputs()[static_cast<std::size_t>(index)].node().id();
      wait(stage_in(updated_, variable));
      wait(stage_in(read_, variable));
    }
    for (const auto* others : {&node.control_inputs(), &node.order_inputs()}) {
      for (const Node* other : *others) wait(stage_in(nodes_, other->id()));
    }
    return stage;
  }

  void take(Instruction instruction) {
    const int stage = stage_of(instruction);
    if (!is_open(stage)) {
      if (communicates(instruction)) note_outputs(instruction, stage_);
      list_.instructions.push_back(std::move(instruction));
      return;
    }
    note(instruction, stage);
    put_off_[stage].push_back({num_put_off_++, std::move(instruction)});
  }

  void note_outputs(const Instruction& instruction, int stage) {
    Node& node = graph_.graph().node(instruction.node);
    for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) values_[node.output(i)] = stage;
  }

  /// What others must wait for that come behind an instruction which is put off.
  void note(const Instruction& instruction, int stage) {
    const auto note_variable = [&](const Value& value) {
      if (is_variable(value)) read_[value.node().id()] = std::max(stage_in(read_, value.node().id()), stage);
    };
    if (instruction.offload >= 0) offloads_[instruction.offload] = stage;
    if (instruction.kind == StepKind::copy_in) values_[instruction.fetched] = stage;
    if (instruction.kind != StepKind::compute) {
      if (instruction.fetched.valid()) note_variable(instruction.fetched);
      return;
    }
    nodes_[instruction.node] = stage;
    note_outputs(instruction, stage);
    for (const Value& value : graph_.reads(instruction.node)) note_variable(value);
    const Node& node = node_of(instruction);
    for (const int index : node.op().updated_inputs) {
      updated_[node.inputs()[static_cast<std::size_t>(index)].node().id()] = stage;
    }
  }

  /// Writes down what has waited for stages up to this one, in its order. It waits for nothing of later ones.
  void release(int stage) {
    std::vector<PutOff> released;
    while (!put_off_.empty() && put_off_.begin()->first <= stage) {
      std::vector<PutOff>& of_stage = put_off_.begin()->second;
      std::move(of_stage.begin(), of_stage.end(), std::back_inserter(released));
      put_off_.erase(put_off_.begin());
    }
    std::sort(released.begin(), released.end(), [](const PutOff& a, const PutOff& b) { return a.number < b.number; });
    for (PutOff& each : released) {
      each.instruction.pass = std::max(each.instruction.pass, pass_);
      list_.instructions.push_back(std::move(each.instruction));
    }
  }

  const ConcreteGraph& graph_;
  InstructionList list_;
  int stage_ = 0;
  int pass_ = -1;                               // of the last instruction
  int communications_ = 0;                      // of this stage
  std::map<int, std::vector<PutOff>> put_off_;  // by the latest stage that they wait for
  std::size_t num_put_off_ = 0;
  std::map<Value, int> values_;           // what communications, and those put off, give: their stage
  std::map<NodeId, int> updated_, read_;  // variables that those put off update and read
  std::map<NodeId, int> nodes_;           // those put off
  std::map<int, int> offloads_;           // those of which a copy is put off
};

}  // namespace

InstructionList put_off_readers(InstructionList list, const ConcreteGraph& graph) {
  const bool communicates =
      std::any_of(list.instructions.begin(), list.instructions.end(), [&](const Instruction& instruction) {
        return instruction.kind == StepKind::compute && graph.graph().node(instruction.node).op().communicates;
      });
  return communicates ? PuttingOff(std::move(list), graph).finished() : list;
}

}  // namespace sectionflow

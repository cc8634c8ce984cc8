#include "schedule/put_off_readers.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "graph/nodes/update.h"
#include "graph/ops/basic.h"
#include "schedule/ranks.h"

namespace sectionflow {
namespace {

/// Communications of a stage where there are no sections: about those of a layer, its kernel and its bias.
constexpr int kCommunicationsAStage = 2;
constexpr int kLongAgo = -2;

bool communicates(const Instruction& instruction, const ConcreteGraph& graph) {
  return instruction.kind == StepKind::compute && graph.graph().node(instruction.node).op().communicates;
}

/// The stages of a list, instruction by instruction: a stage ends with a backward run, or, where there are none, with
/// the last of its communications.
class Stages {
 public:
  Stages(const std::vector<Pass>& passes, const ConcreteGraph& graph) : passes_(passes), graph_(graph) {}

  /// Whether a stage begins with the instruction.
  bool enter(const Instruction& instruction) {
    const bool is_next_pass = pass_ >= 0 && instruction.pass != pass_;
    const bool is_communication = communicates(instruction, graph_);
    const bool ends = is_next_pass ? kind_of(pass_) == Pass::Kind::backward
                                   : kind_of(instruction.pass) == Pass::Kind::whole && is_communication &&
                                         communications_ == kCommunicationsAStage;
    if (ends) {
      ++stage_;
      communications_ = 0;
    }
    if (is_communication) ++communications_;
    pass_ = instruction.pass;
    return ends;
  }
  int stage() const { return stage_; }
  int pass() const { return pass_; }  ///< of the last instruction; -1: of none

 private:
  Pass::Kind kind_of(int pass) const { return passes_[static_cast<std::size_t>(pass)].kind; }

  const std::vector<Pass>& passes_;
  const ConcreteGraph& graph_;
  int stage_ = 0;
  int pass_ = -1;
  int communications_ = 0;  // of this stage
};

/// The bytes that each stage has ranks sum.
std::vector<std::size_t> summed_bytes(const InstructionList& list, const ConcreteGraph& graph) {
  Stages stages(list.passes, graph);
  std::vector<std::size_t> bytes(1);
  for (const Instruction& instruction : list.instructions) {
    if (stages.enter(instruction)) bytes.push_back(0);
    if (!communicates(instruction, graph)) continue;
    const bool is_sum = exchange_of(graph.graph().node(instruction.node)) != Exchange::gather;
    if (is_sum) bytes.back() += exchanged_bytes(graph, instruction.node);
  }
  return bytes;
}

std::size_t two_largest(std::vector<std::size_t> bytes) {
  std::sort(bytes.rbegin(), bytes.rend());
  return bytes[0] + (bytes.size() > 1 ? bytes[1] : 0);
}

class PuttingOff {
 public:
  PuttingOff(InstructionList list, const ConcreteGraph& graph)
      : graph_(graph),
        list_(std::move(list)),
        stages_(list_.passes, graph),
        bytes_(summed_bytes(list_, graph)),
        most_(two_largest(bytes_)) {}

  InstructionList finished() {
    std::vector<Instruction> instructions = std::exchange(list_.instructions, {});
    const int half = list_.half;
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      if (static_cast<int>(i) == half) list_.half = static_cast<int>(list_.instructions.size());
      enter_stage_of(instructions[i]);
      take(std::move(instructions[i]));
    }
    release(stages_.stage());
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

  /// As a stage begins, what waits for earlier ones is written down, the earliest first, until the sums of those that
  /// are left, and of this one, take no more bytes than those of the two largest. So two stages are always open.
  void enter_stage_of(const Instruction& instruction) {
    if (!stages_.enter(instruction)) return;
    held_ += bytes_[static_cast<std::size_t>(stages_.stage())];
    int last = released_;
    while (held_ > most_) held_ -= bytes_[static_cast<std::size_t>(++last)];
    release(last);
  }

  /// Whether what came in that stage is not over yet, as far as the list knows.
  bool is_open(int stage) const { return stage > released_; }

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
      if (communicates(instruction, graph_)) note_outputs(instruction, stages_.stage());
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
    released_ = std::max(released_, stage);
    std::vector<PutOff> released;
    while (!put_off_.empty() && put_off_.begin()->first <= stage) {
      std::vector<PutOff>& of_stage = put_off_.begin()->second;
      std::move(of_stage.begin(), of_stage.end(), std::back_inserter(released));
      put_off_.erase(put_off_.begin());
    }
    std::sort(released.begin(), released.end(), [](const PutOff& a, const PutOff& b) { return a.number < b.number; });
    for (PutOff& each : released) {
      each.instruction.pass = std::max(each.instruction.pass, stages_.pass());
      list_.instructions.push_back(std::move(each.instruction));
    }
  }

  const ConcreteGraph& graph_;
  InstructionList list_;
  Stages stages_;
  std::vector<std::size_t> bytes_;  // that each stage has ranks sum
  std::size_t most_;                // bytes that may be there of stages that are not released
  std::size_t held_ = bytes_.front();
  int released_ = -1;                           // the latest stage of which what waits for it is written down
  std::map<int, std::vector<PutOff>> put_off_;  // by the latest stage that they wait for
  std::size_t num_put_off_ = 0;
  std::map<Value, int> values_;           // what communications, and those put off, give: their stage
  std::map<NodeId, int> updated_, read_;  // variables that those put off update and read
  std::map<NodeId, int> nodes_;           // those put off
  std::map<int, int> offloads_;           // those of which a copy is put off
};

}  // namespace

InstructionList put_off_readers(InstructionList list, const ConcreteGraph& graph) {
  const bool any = std::any_of(list.instructions.begin(), list.instructions.end(),
                               [&](const Instruction& instruction) { return communicates(instruction, graph); });
  return any ? PuttingOff(std::move(list), graph).finished() : list;
}

}  // namespace sectionflow

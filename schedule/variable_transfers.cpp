#include "schedule/variable_transfers.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Instructions between two uses across which a variable stays resident.
constexpr int kNearInstructions = 4;
/// Instructions before its first use at which a variable is prefetched where a thread copies it.
constexpr int kAheadInstructions = 3;

/// A variable is copied to the device before an instruction of the list, or back to the host.
struct VariableTransfer {
  Value variable;
  int instruction = 0;
  bool comes = true;
};

/// An instruction that uses a variable.
struct Use {
  int instruction;
  bool updates;
};

std::map<NodeId, std::vector<Use>> uses_of_variables(const InstructionList& list, const ConcreteGraph& graph,
                                                     const std::function<bool(NodeId)>& has_host_home) {
  std::map<NodeId, std::vector<Use>> uses;
  const auto add = [&](Value value, int instruction, bool updates) {
    if (!is_variable(value) || !has_host_home(value.node().id())) return;
    auto& of_variable = uses[value.node().id()];
    if (of_variable.empty() || of_variable.back().instruction != instruction)
      of_variable.push_back({instruction, false});
    of_variable.back().updates = of_variable.back().updates || updates;
  };
  for (int i = 0; i < static_cast<int>(list.instructions.size()); ++i) {
    const Instruction& instruction = list.instructions[static_cast<std::size_t>(i)];
    if (instruction.kind == StepKind::fetch || instruction.kind == StepKind::hold) add(instruction.fetched, i, false);
    if (instruction.kind != StepKind::compute) continue;
    const Node& node = graph.graph().node(instruction.node);
    for (const Value& value : graph.reads(instruction.node)) add(value, i, false);
    for (int index : node.op().updated_inputs) add(node.inputs()[static_cast<std::size_t>(index)], i, true);
  }
  return uses;
}

/// In the order of the instructions; copies back before copies in.
std::vector<VariableTransfer> variable_transfers(const InstructionList& list, const ConcreteGraph& graph,
                                                 const std::function<bool(NodeId)>& has_host_home,
                                                 CopyCarrier carrier) {
  std::vector<VariableTransfer> transfers;
  const auto pass_of = [&](int instruction) { return list.instructions[static_cast<std::size_t>(instruction)].pass; };
  for (const auto& [id, uses] : uses_of_variables(list, graph, has_host_home)) {
    const Value variable = graph.graph().node(id).output();
    int free_from = 0;  // the instruction before which the variable has left the device
    for (std::size_t begin = 0; begin < uses.size();) {
      std::size_t end = begin + 1;
      const int pass = pass_of(uses[begin].instruction);
      while (end < uses.size() && uses[end].instruction - uses[end - 1].instruction <= kNearInstructions &&
             pass_of(uses[end].instruction) == pass) {
        ++end;
      }
      int comes = uses[begin].instruction;
      for (int ahead = 0; carrier == CopyCarrier::threads && ahead < kAheadInstructions; ++ahead) {
        if (comes > free_from && pass_of(comes - 1) == pass) --comes;
      }
      transfers.push_back({variable, comes, true});
      free_from = uses[end - 1].instruction + 1;
      const bool changed =
          std::any_of(uses.begin() + static_cast<std::ptrdiff_t>(begin),
                      uses.begin() + static_cast<std::ptrdiff_t>(end), [](const Use& use) { return use.updates; });
      if (changed) transfers.push_back({variable, free_from, false});
      begin = end;
    }
  }
  std::stable_sort(transfers.begin(), transfers.end(), [](const VariableTransfer& a, const VariableTransfer& b) {
    return a.instruction != b.instruction ? a.instruction < b.instruction : a.comes < b.comes;
  });
  return transfers;
}

}  // namespace

InstructionList insert_variable_transfers(const InstructionList& list, const ConcreteGraph& graph,
                                          const std::function<bool(NodeId)>& has_host_home, CopyCarrier carrier) {
  const std::vector<VariableTransfer> transfers = variable_transfers(list, graph, has_host_home, carrier);
  InstructionList result{.passes = list.passes, .instructions = {}, .entries = list.entries, .half = 0};
  const auto num_instructions = static_cast<int>(list.instructions.size());
  const int half = std::min(list.half, num_instructions);
  auto next = transfers.begin();
  for (int i = 0; i <= num_instructions; ++i) {
    if (i == half) result.half = static_cast<int>(result.instructions.size());
    for (; next != transfers.end() && next->instruction == i; ++next) {
      const int beside = next->comes ? i : i - 1;
      result.instructions.push_back({.kind = next->comes ? StepKind::copy_in : StepKind::copy_out,
                                     .node = next->variable.node().id(),
                                     .fetched = next->variable,
                                     .pass = list.instructions[static_cast<std::size_t>(beside)].pass});
      // What the forward half has changed is copied back with it.
      if (!next->comes && i == half) result.half = static_cast<int>(result.instructions.size());
    }
    if (i < num_instructions) result.instructions.push_back(list.instructions[static_cast<std::size_t>(i)]);
  }
  return result;
}

bool is_variable_transfer(const Instruction& instruction) {
  return (instruction.kind == StepKind::copy_in || instruction.kind == StepKind::copy_out) && instruction.offload < 0 &&
         is_variable(instruction.fetched);
}

}  // namespace sectionflow

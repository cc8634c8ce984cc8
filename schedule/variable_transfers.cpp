#include "schedule/variable_transfers.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "graph/ops/basic.h"
#include "schedule/insert_offloads.h"

namespace sectionflow {
namespace {

/// Instructions between two uses across which a variable stays resident.
constexpr int kNearInstructions = 4;
/// Instructions before its first use at which a variable is prefetched where a thread copies it, and before that copy
/// at which the disk reads it.
constexpr int kAheadInstructions = 3;

/// An instruction that uses a variable.
struct Use {
  int instruction;
  bool updates;
};

std::map<NodeId, std::vector<Use>> uses_of_variables(const InstructionList& list, const ConcreteGraph& graph,
                                                     const std::function<Tier(NodeId)>& home_of) {
  std::map<NodeId, std::vector<Use>> uses;
  const auto add = [&](Value value, int instruction, bool updates) {
    if (!is_variable(value) || home_of(value.node().id()) == Tier::device) return;
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
    // Not the shards of what it reads: those are read by what gathers them.
    for (std::size_t input = 0; input < node.inputs().size(); ++input) {
      if (graph.uses(instruction.node)[input] == InputUse::data) add(node.inputs()[input], i, false);
    }
    for (int index : node.op().updated_inputs) add(node.inputs()[static_cast<std::size_t>(index)], i, true);
  }
  return uses;
}

/// A move of a variable towards the device before an instruction, or back to its home, which goes first.
Insertion variable_move(StepKind kind, Value variable, int place) {
  const bool leaves = kind == StepKind::copy_out || kind == StepKind::disk_write;
  return {.place = place,
          .turn = leaves ? 0 : 1,
          .instruction = {.kind = kind, .node = variable.node().id(), .fetched = variable}};
}

}  // namespace

InstructionList insert_variable_transfers(const InstructionList& list, const ConcreteGraph& graph,
                                          const std::function<Tier(NodeId)>& home_of, CopyCarrier carrier) {
  std::vector<Insertion> transfers;
  const auto pass_of = [&](int instruction) { return list.instructions[static_cast<std::size_t>(instruction)].pass; };
  for (const auto& [id, uses] : uses_of_variables(list, graph, home_of)) {
    const Value variable = graph.graph().node(id).output();
    const bool is_on_disk = home_of(id) == Tier::disk;
    int free_from = 0;  // the instruction before which the variable has left the device
    for (std::size_t begin = 0; begin < uses.size();) {
      std::size_t end = begin + 1;
      const int pass = pass_of(uses[begin].instruction);
      while (end < uses.size() && uses[end].instruction - uses[end - 1].instruction <= kNearInstructions &&
             pass_of(uses[end].instruction) == pass) {
        ++end;
      }
      const auto before = [&](int place) {
        for (int ahead = 0; ahead < kAheadInstructions; ++ahead) {
          if (place > free_from && pass_of(place - 1) == pass) --place;
        }
        return place;
      };
      int comes = uses[begin].instruction;
      if (carrier == CopyCarrier::threads) comes = before(comes);
      if (is_on_disk) transfers.push_back(variable_move(StepKind::disk_read, variable, before(comes)));
      transfers.push_back(variable_move(StepKind::copy_in, variable, comes));
      free_from = uses[end - 1].instruction + 1;
      const bool changed =
          std::any_of(uses.begin() + static_cast<std::ptrdiff_t>(begin),
                      uses.begin() + static_cast<std::ptrdiff_t>(end), [](const Use& use) { return use.updates; });
      if (changed) transfers.push_back(variable_move(StepKind::copy_out, variable, free_from));
      if (changed && is_on_disk) transfers.push_back(variable_move(StepKind::disk_write, variable, free_from));
      begin = end;
    }
  }
  return with_insertions(list, std::move(transfers));
}

bool is_variable_transfer(const Instruction& instruction) {
  return is_transfer(instruction.kind) && instruction.offload < 0 && is_variable(instruction.fetched);
}

}  // namespace sectionflow

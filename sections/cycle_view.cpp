#include "sections/cycle_view.h"

#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// The values that an instruction reads, variables left out.
std::vector<Value> reads_of(const Instruction& instruction, const ConcreteGraph& graph) {
  std::vector<Value> reads;
  if (instruction.kind == StepKind::fetch || instruction.kind == StepKind::hold ||
      instruction.kind == StepKind::copy_out) {
    reads.push_back(instruction.fetched);
  }
  if (instruction.kind == StepKind::compute) {
    reads = graph.reads(instruction.node);
    Node& node = graph.graph().node(instruction.node);
    for (int output : node.op().kept_outputs) {
      if (instruction.replay) reads.push_back(node.output(output));
    }
  }
  std::erase_if(reads, [](const Value& value) { return is_variable(value); });
  return reads;
}

}  // namespace

CycleView::CycleView(const InstructionList& list, const ConcreteGraph& graph, const std::vector<GroupId>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) section_of_group_[groups[i]] = static_cast<SectionIndex>(i);
  for (std::size_t i = 0; i < list.instructions.size(); ++i) {
    const Pass& pass = list.passes[static_cast<std::size_t>(list.instructions[i].pass)];
    const bool is_forward = pass.kind == Pass::Kind::forward;
    if (runs_.empty() || runs_.back().section != pass.section || runs_.back().is_forward != is_forward) {
      runs_.push_back({pass.section, is_forward, static_cast<int>(i)});
    }
    run_of_instruction_.push_back(static_cast<int>(runs_.size()) - 1);
  }
  add_names(list, graph);
  add_readers(list, graph);
}

void CycleView::add_names(const InstructionList& list, const ConcreteGraph& graph) {
  const auto add = [&](Value name, Value of) {
    const Value tensor = tensor_of(of);
    if (tensor_of_.emplace(name, tensor).second) names_[tensor].push_back(name);
  };
  for (const EntryValue& entry : list.entries) {
    for (const Value& name : entry.other_names) add(name, entry.value);
  }
  for (const Instruction& instruction : list.instructions) {
    if (instruction.kind != StepKind::compute || !graph.is_identity(instruction.node)) continue;
    add(graph.graph().node(instruction.node).output(), graph.reads(instruction.node).front());
  }
}

void CycleView::add_readers(const InstructionList& list, const ConcreteGraph& graph) {
  for (std::size_t i = 0; i < list.instructions.size(); ++i) {
    const Instruction& instruction = list.instructions[i];
    const bool renames = instruction.kind == StepKind::compute && graph.is_identity(instruction.node);
    for (const Value& value : reads_of(instruction, graph)) {
      const Value tensor = tensor_of(value);
      first_use_.emplace(tensor, static_cast<int>(i));
      // Another name is no reader: whoever reads by that name is.
      if (!renames) readers_[tensor].insert(runs_[static_cast<std::size_t>(run_of_instruction_[i])].section);
    }
  }
}

SectionIndex CycleView::section_of(Value value) const {
  const auto found = section_of_group_.find(value.node().group());
  return found == section_of_group_.end() ? kOutside : found->second;
}

Value CycleView::tensor_of(Value value) const {
  const auto found = tensor_of_.find(value);
  return found == tensor_of_.end() ? value : found->second;
}

std::vector<Value> CycleView::names_of(Value tensor) const {
  std::vector<Value> names = {tensor};
  if (const auto found = names_.find(tensor); found != names_.end()) {
    names.insert(names.end(), found->second.begin(), found->second.end());
  }
  return names;
}

bool CycleView::is_border(Value tensor) const {
  const SectionIndex own = section_of(tensor);
  if (own == kOutside) return true;
  const auto found = readers_.find(tensor);
  if (found == readers_.end()) return false;
  return found->second.size() > 1 || *found->second.begin() != own;
}

int CycleView::first_use(Value tensor) const {
  const auto found = first_use_.find(tensor);
  return found == first_use_.end() ? -1 : found->second;
}

}  // namespace sectionflow

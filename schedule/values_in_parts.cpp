#include "schedule/values_in_parts.h"

#include <algorithm>

#include "base/error.h"
#include "schedule/node_parts.h"

namespace sectionflow {

ValuesInParts::ValuesInParts(const InstructionList& list, const ConcreteGraph& graph) : graph_(graph) {
  const auto is_in_parts = [](const Instruction& instruction) { return instruction.parts > 1; };
  if (std::none_of(list.instructions.begin(), list.instructions.end(), is_in_parts)) return;
  const std::vector<int> strips = strips_of(list.instructions);
  for (std::size_t i = 0; i < strips.size(); ++i) add(list.instructions[i], strips[i]);
}

void ValuesInParts::add(const Instruction& instruction, int strip) {
  if (instruction.kind == StepKind::feed) return;
  if (instruction.kind != StepKind::compute) return read(instruction.fetched, {}, PartUse::whole);
  Node& node = graph_.graph().node(instruction.node);
  const int parts = instruction.parts;
  if (graph_.is_identity(instruction.node)) {
    const Value renamed = graph_.reads(instruction.node).front();
    read(renamed, {parts, strip}, PartUse::rows);
    other_names_.try_emplace(node.output(), named(renamed));
    return;
  }
  std::optional<NodeParts> in_parts;
  if (parts > 1) {
    in_parts = parts_of_node(graph_, instruction.node);
    SF_CHECK(in_parts && in_parts->may_be(parts) && instruction.part >= 0 && instruction.part < parts, InternalError,
             "schedule: ", node.label(), " does not run in ", parts, " parts, of which one is ", instruction.part);
  }
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (graph_.uses(instruction.node)[i] != InputUse::data) continue;
    read(node.inputs()[i], {parts, strip}, in_parts ? in_parts->uses.inputs[i] : PartUse::whole);
  }
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
    const auto& kept = node.op().kept_outputs;
    const bool is_read = instruction.replay && std::find(kept.begin(), kept.end(), output) != kept.end();
    const bool has_rows = in_parts && in_parts->uses.outputs[static_cast<std::size_t>(output)] == PartUse::rows;
    make(node.output(output), has_rows && !is_read ? Made{parts, strip} : Made{});
  }
}

void ValuesInParts::make(Value value, Made made) {
  Made& known = made_.try_emplace(value, made).first->second;
  if (made.parts == 1 || known.parts != made.parts) whole_.insert(value);
  known = made;
}

void ValuesInParts::read(Value value, Made reader, PartUse use) {
  const Value first = named(value);
  const auto made = made_.find(first);
  if (made == made_.end()) return;
  const bool is_of_part = made->second.parts == reader.parts && made->second.strip == reader.strip;
  if (!is_of_part || use != PartUse::rows) whole_.insert(first);
}

bool ValuesInParts::contains(Value value) const {
  const Value first = named(value);
  return made_.contains(first) && !whole_.contains(first);
}

Value ValuesInParts::named(Value value) const {
  const auto found = other_names_.find(value);
  return found == other_names_.end() ? value : found->second;
}

}  // namespace sectionflow

#include "fit/list_dependencies.h"

#include "fit/list_units.h"
#include "fit/nodes_before.h"
#include "graph/nodes/control.h"
#include "graph/ops/basic.h"

namespace sectionflow {

ListDependencies::ListDependencies(const InstructionList& list, const ConcreteGraph& graph)
    : list_(list), graph_(graph), before_(list.instructions.size()) {
  const int count = static_cast<int>(list.instructions.size());
  for (int i = 0; i < count; ++i) {
    const StepKind kind = list.instructions[at(i)].kind;
    if (kind == StepKind::compute || kind == StepKind::feed) place_of_[list.instructions[at(i)].node] = i;
  }
  for (int i = 0; i < count; ++i) add(i);
  NodesBefore edges(graph, place_of_);
  for (const auto& [node, place] : place_of_) {
    for (const int earlier : edges.of(node)) {
      if (earlier < place) before_[at(place)].insert(earlier);
    }
  }
}

int ListDependencies::maker(Value value) const {
  const auto found = place_of_.find(value.node().id());
  return found == place_of_.end() ? -1 : found->second;
}

void ListDependencies::add(int place) {
  const Instruction& instruction = list_.instructions[at(place)];
  if (instruction.kind == StepKind::feed) return;
  if (instruction.kind != StepKind::compute) return read(place, instruction.fetched);
  const Node& node = graph_.graph().node(instruction.node);
  for (const Value& value : graph_.reads(instruction.node)) read(place, value);
  for (const int input : node.op().updated_inputs) update(place, node.inputs()[at(input)].node().id());
  // What is found before the first update has changed nothing.
  const bool asserts = assertion_of(node) != nullptr;
  if (last_assertion_ >= 0 && (asserts || node.op().is_update())) before_[at(place)].insert(last_assertion_);
  if (asserts) last_assertion_ = place;
  // All ranks communicate in one order.
  if (node.op().communicates) {
    if (last_communication_ >= 0) before_[at(place)].insert(last_communication_);
    last_communication_ = place;
  }
  if (!node.op().prints) return;
  if (last_print_ >= 0) before_[at(place)].insert(last_print_);
  last_print_ = place;
}

void ListDependencies::read(int place, Value value) {
  const int maker = this->maker(value);
  if (maker >= 0) before_[at(place)].insert(maker);
  if (!is_variable(value)) return;
  Variable& variable = variables_[value.node().id()];
  if (variable.update >= 0) before_[at(place)].insert(variable.update);
  variable.readers.push_back(place);
}

void ListDependencies::update(int place, NodeId id) {
  Variable& variable = variables_[id];
  if (variable.update >= 0) before_[at(place)].insert(variable.update);
  for (const int reader : variable.readers) {
    if (reader != place) before_[at(place)].insert(reader);
  }
  variable = {{}, place};
}

}  // namespace sectionflow

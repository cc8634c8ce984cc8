#include "runtime/schedule.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Lowers line by line, knowing where each value was written last.
class Lowering {
 public:
  Lowering(const ConcreteGraph& graph, Schedule& schedule) : graph_(graph), schedule_(schedule) {}

  void enter(const EntryValue& entry) {
    const int buffer = add_buffer(entry.value, 0);
    schedule_.buffers[buffer].fixed_offset = entry.offset;
    schedule_.buffers[buffer].other_names = entry.other_names;
    for (const Value& name : entry.other_names) current_[name] = buffer;
  }

  void add(const ScriptLine& line) {
    step_ = static_cast<StepIndex>(schedule_.steps.size());
    if (line.kind == StepKind::compute && graph_.is_identity(line.node)) return rename(line.node);
    Step step{.kind = line.kind, .node = line.node, .pass = line.pass, .replay = line.replay};
    switch (line.kind) {
      case StepKind::feed:
        step.slot = feed_slot(line.node);
        step.outputs = {write({graph_.graph().node(line.node), 0})};
        break;
      case StepKind::fetch:
        step.node = line.fetched.node().id();
        step.slot = line.fetch_slot;
        step.inputs = {read(line.fetched)};
        schedule_.fetches[line.fetch_slot] = {line.fetched, graph_.type(line.fetched),
                                              graph_.type(line.fetched).bytes()};
        break;
      case StepKind::hold:
        step.node = line.fetched.node().id();
        step.inputs = {read(line.fetched)};
        break;
      case StepKind::compute:
        add_operands(step);
        break;
    }
    schedule_.steps.push_back(std::move(step));
  }

 private:
  /// The node's output is another name of the buffer that holds its input. Whoever reads it keeps that buffer alive.
  void rename(NodeId id) {
    Node& node = graph_.graph().node(id);
    const int buffer = buffer_of(node.inputs()[0]);
    schedule_.buffers[buffer].other_names.push_back(node.output());
    current_[node.output()] = buffer;
  }

  void add_operands(Step& step) {
    Node& node = graph_.graph().node(step.node);
    const OpDef& op = node.op();
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const bool is_read = graph_.uses(step.node)[i] == InputUse::data;
      step.inputs.push_back(is_read ? read(node.inputs()[i]) : Operand{});
    }
    for (int index : op.updated_inputs) step.updated.push_back(read(node.inputs()[index]));
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const bool kept = std::find(op.kept_outputs.begin(), op.kept_outputs.end(), output) != op.kept_outputs.end();
      step.outputs.push_back(step.replay && kept ? read(node.output(output)) : write(node.output(output)));
    }
  }

  Operand read(Value value) {
    if (is_variable(value)) return {Operand::Kind::variable, value.node().id()};
    const int buffer = buffer_of(value);
    schedule_.buffers[buffer].life.last = step_;
    return {Operand::Kind::buffer, buffer};
  }

  int buffer_of(Value value) const {
    const auto found = current_.find(value);
    SF_CHECK(found != current_.end(), InternalError, "schedule: step ", step_, " reads '", value.name(),
             "', which no earlier step has written");
    return found->second;
  }

  Operand write(Value value) { return {Operand::Kind::buffer, add_buffer(value, step_)}; }

  int add_buffer(Value value, StepIndex first) {
    const int index = static_cast<int>(schedule_.buffers.size());
    schedule_.buffers.push_back({.value = value,
                                 .bytes = graph_.type(value).bytes(),
                                 .life = {first, first},
                                 .fixed_offset = {},
                                 .other_names = {}});
    current_[value] = index;
    return index;
  }

  int feed_slot(NodeId placeholder) {
    auto& feeds = schedule_.feeds;
    const auto found = std::find(feeds.begin(), feeds.end(), placeholder);
    if (found != feeds.end()) return static_cast<int>(found - feeds.begin());
    feeds.push_back(placeholder);
    return static_cast<int>(feeds.size()) - 1;
  }

  const ConcreteGraph& graph_;
  Schedule& schedule_;
  StepIndex step_ = 0;
  std::unordered_map<Value, int> current_;  // the buffer in which each value was written last
};

}  // namespace

std::string Pass::text() const {
  const std::string number = section == kNoGroup ? std::string() : text_of(" ", section);
  switch (kind) {
    case Kind::forward:
      return "forward" + number;
    case Kind::recompute:
      return "forward" + number + " (again)";
    case Kind::backward:
      return "backward" + number;
    case Kind::whole:
      return "whole graph";
  }
  throw InternalError("Pass::text: unknown kind");
}

Schedule lower_script(const Script& script, const ConcreteGraph& graph, std::size_t num_fetches) {
  Schedule schedule;
  schedule.passes = script.passes;
  schedule.fetches.resize(num_fetches);
  Lowering lowering(graph, schedule);
  for (const EntryValue& entry : script.entries) lowering.enter(entry);
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    if (i == static_cast<std::size_t>(script.half)) schedule.half = static_cast<StepIndex>(schedule.steps.size());
    lowering.add(script.lines[i]);
  }
  if (static_cast<std::size_t>(script.half) >= script.lines.size()) {
    schedule.half = static_cast<StepIndex>(schedule.steps.size());
  }
  for (std::size_t i = 0; i < num_fetches; ++i) {
    SF_CHECK(schedule.fetches[i].value.valid(), InternalError, "schedule: no line evaluates fetch ", i);
  }
  return schedule;
}

}  // namespace sectionflow

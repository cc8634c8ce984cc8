#include "schedule/schedule.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "graph/ops/basic.h"
#include "schedule/variable_transfers.h"

namespace sectionflow {
namespace {

/// Lowers line by line, knowing where each value was written last.
class Lowering {
 public:
  Lowering(const ConcreteGraph& graph, Schedule& schedule, CopyCarrier carrier)
      : graph_(graph), schedule_(schedule), carrier_(carrier) {}

  void enter(const EntryValue& entry) {
    const int buffer = add_buffer(entry.value, 0, entry.tier);
    schedule_.buffers[buffer].fixed_offset = entry.offset;
    schedule_.buffers[buffer].other_names = entry.other_names;
    if (entry.tier != Tier::device) {
      rest_at(entry.rest, entry.tier) = buffer;
      schedule_.buffers[buffer].rest = entry.rest;
      return;
    }
    current_[entry.value] = buffer;
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
      case StepKind::copy_out:
      case StepKind::disk_write:
      case StepKind::disk_read:
      case StepKind::copy_in:
        if (is_variable_transfer(line)) {
          add_variable_transfer(step, line.fetched);
        } else {
          add_transfer(step, line);
        }
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

  /// One stay of a value in a tier ends in another: the step reads a buffer of the one and begins one of the other.
  void add_transfer(Step& step, const ScriptLine& line) {
    step.rest = line.rest;
    const bool from_device = line.kind == StepKind::copy_out, to_device = line.kind == StepKind::copy_in;
    const Tier from = line.kind == StepKind::disk_read ? Tier::disk : Tier::host;
    const Tier to = line.kind == StepKind::disk_write ? Tier::disk : Tier::host;
    step.inputs = {from_device ? read(line.fetched) : read_rest(line.rest, from)};
    const auto source = static_cast<std::size_t>(step.inputs[0].index);
    const int target = to_device ? begin_again(line.fetched, source) : begin_rest(source, line.rest, to);
    step.node = schedule_.buffers[static_cast<std::size_t>(target)].value.node().id();
    step.outputs = {{Operand::Kind::buffer, target}};
    if (line.kind == StepKind::disk_write) step.lane = Lane::disk_out;
    if (line.kind == StepKind::disk_read) step.lane = Lane::disk_in;
    if (carrier_ == CopyCarrier::threads && from_device) step.lane = Lane::copy_out;
    if (carrier_ == CopyCarrier::threads && to_device) step.lane = Lane::copy_in;
  }

  /// A variable comes from its home in host memory, or goes back there.
  void add_variable_transfer(Step& step, Value variable) {
    const bool comes = step.kind == StepKind::copy_in;
    const Operand home = {Operand::Kind::variable, variable.node().id()};
    step.node = variable.node().id();
    step.inputs = {comes ? home : read(variable)};
    step.outputs = {comes ? write(variable) : home};
    if (carrier_ == CopyCarrier::threads) step.lane = comes ? Lane::copy_in : Lane::copy_out;
    if (!comes) current_.erase(variable);
  }

  int begin_rest(std::size_t source, int rest, Tier tier) {
    const int buffer = add_buffer(schedule_.buffers[source].value, step_, tier);
    Buffer& begun = schedule_.buffers[static_cast<std::size_t>(buffer)];
    begun.other_names = schedule_.buffers[source].other_names;
    begun.rest = rest;
    return rest_at(rest, tier) = buffer;
  }

  /// A device buffer of `wanted` with the bytes of a rest. The value that was copied out comes back under all the names
  /// that it has by now.
  int begin_again(Value wanted, std::size_t source) {
    const Value rested = schedule_.buffers[source].value;
    std::vector<Value> names = schedule_.buffers[source].other_names;
    if (const auto latest = current_.find(rested); latest != current_.end()) {
      // A feed that was copied in anew knows none of the names that only what rests has.
      std::erase_if(names, [&](const Value& name) { return current_.contains(name); });
      const auto& known = schedule_.buffers[static_cast<std::size_t>(latest->second)].other_names;
      names.insert(names.begin(), known.begin(), known.end());
    }
    const bool same = wanted == rested || std::find(names.begin(), names.end(), wanted) != names.end();
    const int buffer = add_buffer(same ? rested : wanted, step_);
    if (!same) return buffer;
    for (const Value& name : names) current_[name] = buffer;
    schedule_.buffers[static_cast<std::size_t>(buffer)].other_names = std::move(names);
    return buffer;
  }

  Operand read_rest(int rest, Tier tier) {
    const int buffer = rest < 0 ? -1 : rest_at(rest, tier);
    SF_CHECK(buffer >= 0, InternalError, "schedule: step ", step_, " reads rest ", rest, " of ", tier_name(tier),
             ", where no earlier step has put it");
    schedule_.buffers[static_cast<std::size_t>(buffer)].life.last = step_;
    return {Operand::Kind::buffer, buffer};
  }

  /// The latest buffer of a rest in a tier; -1 where there is none.
  int& rest_at(int rest, Tier tier) {
    schedule_.num_rests = std::max(schedule_.num_rests, rest + 1);
    return rests_.try_emplace({rest, tier}, -1).first->second;
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
    if (is_variable(value) && !current_.contains(value)) return {Operand::Kind::variable, value.node().id()};
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

  int add_buffer(Value value, StepIndex first, Tier tier = Tier::device) {
    const int index = static_cast<int>(schedule_.buffers.size());
    schedule_.buffers.push_back({.value = value,
                                 .bytes = graph_.type(value).bytes(),
                                 .life = {first, first},
                                 .fixed_offset = {},
                                 .other_names = {},
                                 .tier = tier});
    if (tier == Tier::device) current_[value] = index;
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
  CopyCarrier carrier_;
  StepIndex step_ = 0;
  std::unordered_map<Value, int> current_;     // the device buffer in which each value was written last
  std::map<std::pair<int, Tier>, int> rests_;  // the buffer of each rest in each tier off the device
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

const char* lane_name(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::copy_out:
      return "copy out";
    case Lane::copy_in:
      return "copy in";
    case Lane::disk_out:
      return "disk out";
    case Lane::disk_in:
      return "disk in";
  }
  throw InternalError("lane_name: unknown lane");
}

bool is_transfer(StepKind kind) {
  return kind == StepKind::copy_out || kind == StepKind::disk_write || kind == StepKind::disk_read ||
         kind == StepKind::copy_in;
}

const Buffer& carried_buffer(const Step& step, const Schedule& schedule) {
  const bool at_home = step.outputs[0].kind == Operand::Kind::variable;
  return schedule.buffers[static_cast<std::size_t>((at_home ? step.inputs[0] : step.outputs[0]).index)];
}

Schedule lower_script(const Script& script, const ConcreteGraph& graph, std::size_t num_fetches, CopyCarrier carrier) {
  Schedule schedule;
  schedule.passes = script.passes;
  schedule.fetches.resize(num_fetches);
  Lowering lowering(graph, schedule, carrier);
  for (const EntryValue& entry : script.entries) lowering.enter(entry);
  const auto num_steps = [&] { return static_cast<StepIndex>(schedule.steps.size()); };
  for (std::size_t i = 0; i < script.lines.size(); ++i) {
    if (static_cast<int>(i) == script.half) schedule.half = num_steps();
    // A variable's copies are steps of no line of the writer's.
    if (!is_variable_transfer(script.lines[i])) schedule.step_of_line.push_back(num_steps());
    lowering.add(script.lines[i]);
  }
  if (script.half >= static_cast<int>(script.lines.size())) schedule.half = num_steps();
  for (std::size_t i = 0; i < num_fetches; ++i) {
    SF_CHECK(schedule.fetches[i].value.valid(), InternalError, "schedule: no line evaluates fetch ", i);
  }
  return schedule;
}

}  // namespace sectionflow

#include "schedule/schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"
#include "schedule/node_parts.h"
#include "schedule/values_in_parts.h"
#include "schedule/variable_gathers.h"
#include "schedule/variable_transfers.h"

namespace sectionflow {
namespace {

constexpr int kLastPart = std::numeric_limits<int>::max();
/// A variable whose home is on disk has no buffer in host memory.
constexpr int kNowhere = -1;

/// Lowers instruction by instruction, knowing where each value was written last.
class Lowering {
 public:
  Lowering(const InstructionList& list, const ConcreteGraph& graph, Schedule& schedule, CopyCarrier carrier)
      : graph_(graph), schedule_(schedule), carrier_(carrier), in_parts_(list, graph) {
    for (const Instruction& each : list.instructions) {
      const bool is_disks = each.kind == StepKind::disk_read || each.kind == StepKind::disk_write;
      if (is_disks && is_variable_transfer(each)) staged_.emplace(each.fetched, kNowhere);
    }
  }

  void enter(const EntryValue& entry) {
    const int buffer = add_buffer(entry.value, 0, entry.tier);
    schedule_.buffers[buffer].fixed_offset = entry.offset;
    schedule_.buffers[buffer].other_names = entry.other_names;
    if (entry.tier != Tier::device) {
      offload_at(entry.offload, entry.tier) = buffer;
      schedule_.buffers[buffer].offload = entry.offload;
      return;
    }
    current_[entry.value] = buffer;
    for (const Value& name : entry.other_names) current_[name] = buffer;
  }

  void add(const Instruction& instruction) {
    step_ = static_cast<StepIndex>(schedule_.steps.size());
    if (instruction.kind == StepKind::compute && graph_.is_identity(instruction.node)) return rename(instruction.node);
    Step step{.kind = instruction.kind,
              .node = instruction.node,
              .pass = instruction.pass,
              .replay = instruction.replay,
              .part = instruction.part,
              .parts = instruction.parts};
    switch (instruction.kind) {
      case StepKind::feed:
        step.slot = feed_slot(instruction.node);
        step.outputs = {write({graph_.graph().node(instruction.node), 0})};
        break;
      case StepKind::fetch:
        step.node = instruction.fetched.node().id();
        step.slot = instruction.fetch_slot;
        step.inputs = {read(instruction.fetched)};
        schedule_.fetches[instruction.fetch_slot] = {instruction.fetched, graph_.type(instruction.fetched),
                                                     graph_.type(instruction.fetched).bytes()};
        break;
      case StepKind::hold:
        step.node = instruction.fetched.node().id();
        step.inputs = {instruction.offload >= 0 ? read_offload(instruction.offload, Tier::host)
                                                : read(instruction.fetched)};
        break;
      case StepKind::compute:
        add_operands(step);
        break;
      case StepKind::copy_out:
      case StepKind::disk_write:
      case StepKind::disk_read:
      case StepKind::copy_in:
        if (is_variable_transfer(instruction)) {
          add_variable_transfer(step, instruction.fetched);
        } else {
          add_transfer(step, instruction);
        }
        break;
    }
    schedule_.steps.push_back(std::move(step));
  }

 private:
  /// The node's output is another name of the buffer that holds what it reads. Whoever reads it keeps that buffer
  /// alive.
  void rename(NodeId id) {
    Node& node = graph_.graph().node(id);
    const int buffer = buffer_of(graph_.reads(id).front());
    auto& names = schedule_.buffers[buffer].other_names;
    // Of a whole value every part says the same.
    const bool is_known = std::find(names.begin(), names.end(), node.output()) != names.end();
    if (!is_known) names.push_back(node.output());
    current_[node.output()] = buffer;
  }

  /// The value moves on to another tier: the step reads a buffer of the one and begins one of the other.
  void add_transfer(Step& step, const Instruction& instruction) {
    step.offload = instruction.offload;
    const bool from_device = instruction.kind == StepKind::copy_out, to_device = instruction.kind == StepKind::copy_in;
    const Tier from = instruction.kind == StepKind::disk_read ? Tier::disk : Tier::host;
    const Tier to = instruction.kind == StepKind::disk_write ? Tier::disk : Tier::host;
    step.inputs = {from_device ? read(instruction.fetched) : read_offload(instruction.offload, from)};
    const auto source = static_cast<std::size_t>(step.inputs[0].index);
    const int target =
        to_device ? begin_again(instruction.fetched, source) : begin_offload(source, instruction.offload, to);
    step.node = schedule_.buffers[static_cast<std::size_t>(target)].value.node().id();
    step.outputs = {{Operand::Kind::buffer, target}};
    if (instruction.kind == StepKind::disk_write) step.lane = Lane::disk_out;
    if (instruction.kind == StepKind::disk_read) step.lane = Lane::disk_in;
    if (carrier_ == CopyCarrier::threads && from_device) step.lane = Lane::copy_out;
    if (carrier_ == CopyCarrier::threads && to_device) step.lane = Lane::copy_in;
  }

  /// A variable is copied in from its home tier, or back to it: host memory, or the disk by way of a buffer there.
  void add_variable_transfer(Step& step, Value variable) {
    const Operand home = {Operand::Kind::variable, variable.node().id()};
    const auto staged = staged_.find(variable);
    step.node = variable.node().id();
    switch (step.kind) {
      case StepKind::disk_read:
        step.inputs = {home};
        step.outputs = {stage(variable)};
        step.lane = Lane::disk_in;
        return;
      case StepKind::disk_write:
        step.inputs = {read_staged(variable)};
        step.outputs = {home};
        step.lane = Lane::disk_out;
        return;
      case StepKind::copy_in:
        step.inputs = {staged == staged_.end() ? home : read_staged(variable)};
        step.outputs = {write(variable)};
        if (carrier_ == CopyCarrier::threads) step.lane = Lane::copy_in;
        return;
      default:
        step.inputs = {read(variable)};
        step.outputs = {staged == staged_.end() ? home : stage(variable)};
        if (carrier_ == CopyCarrier::threads) step.lane = Lane::copy_out;
        current_.erase(variable);
    }
  }

  /// A buffer in host memory for a variable between its home on disk and the device.
  Operand stage(Value variable) {
    return {Operand::Kind::buffer, staged_[variable] = add_buffer(variable, step_, Tier::host)};
  }
  Operand read_staged(Value variable) {
    const int buffer = std::exchange(staged_[variable], kNowhere);
    SF_CHECK(buffer != kNowhere, InternalError, "schedule: step ", step_, " reads '", variable.name(),
             "' in host memory, where no earlier step has put it");
    schedule_.buffers[static_cast<std::size_t>(buffer)].life.last = step_;
    return {Operand::Kind::buffer, buffer};
  }

  int begin_offload(std::size_t source, int offload, Tier tier) {
    const int buffer = add_buffer(schedule_.buffers[source].value, step_, tier);
    Buffer& begun = schedule_.buffers[static_cast<std::size_t>(buffer)];
    begun.other_names = schedule_.buffers[source].other_names;
    begun.offload = offload;
    return offload_at(offload, tier) = buffer;
  }

  /// A device buffer of `wanted` with the bytes of an offload. The value that was copied out is copied back under all
  /// the names that it has by now.
  int begin_again(Value wanted, std::size_t source) {
    const Value offloaded = schedule_.buffers[source].value;
    std::vector<Value> names = schedule_.buffers[source].other_names;
    if (const auto latest = current_.find(offloaded); latest != current_.end()) {
      // A feed that was copied in anew knows none of the names that only its offload has.
      std::erase_if(names, [&](const Value& name) { return current_.contains(name); });
      const auto& known = schedule_.buffers[static_cast<std::size_t>(latest->second)].other_names;
      names.insert(names.begin(), known.begin(), known.end());
    }
    const bool same = wanted == offloaded || std::find(names.begin(), names.end(), wanted) != names.end();
    const int buffer = add_buffer(same ? offloaded : wanted, step_);
    if (!same) return buffer;
    for (const Value& name : names) current_[name] = buffer;
    schedule_.buffers[static_cast<std::size_t>(buffer)].other_names = std::move(names);
    return buffer;
  }

  Operand read_offload(int offload, Tier tier) {
    const int buffer = offload < 0 ? -1 : offload_at(offload, tier);
    SF_CHECK(buffer >= 0, InternalError, "schedule: step ", step_, " reads offload ", offload, " of ", tier_name(tier),
             ", where no earlier step has put it");
    schedule_.buffers[static_cast<std::size_t>(buffer)].life.last = step_;
    return {Operand::Kind::buffer, buffer};
  }

  /// The latest buffer of an offload in a tier; -1 where there is none.
  int& offload_at(int offload, Tier tier) {
    schedule_.num_offloads = std::max(schedule_.num_offloads, offload + 1);
    return offloads_.try_emplace({offload, tier}, -1).first->second;
  }

  void add_operands(Step& step) {
    Node& node = graph_.graph().node(step.node);
    const OpDef& op = node.op();
    if (op.communicates) step.lane = Lane::communicate;
    const std::optional<NodeParts> parts = step.parts > 1 ? parts_of_node(graph_, step.node) : std::nullopt;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const bool is_read = graph_.uses(step.node)[i] == InputUse::data;
      const bool has_rows = parts && parts->uses.inputs[i] == PartUse::rows;
      step.inputs.push_back(!is_read   ? Operand{}
                            : has_rows ? part_of(read(node.inputs()[i], step.part), node.inputs()[i], step)
                                       : read(node.inputs()[i]));
    }
    for (int index : op.updated_inputs) step.updated.push_back(read(node.inputs()[index]));
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const bool kept = std::find(op.kept_outputs.begin(), op.kept_outputs.end(), output) != op.kept_outputs.end();
      const Value value = node.output(output);
      const bool has_rows = parts && parts->uses.outputs[static_cast<std::size_t>(output)] == PartUse::rows;
      if (has_rows && in_parts_.contains(value)) {
        step.outputs.push_back(write_part(value, step));
        continue;
      }
      const Operand all = step.replay && kept ? read(value, has_rows ? step.part : kLastPart)
                          : step.part > 0     ? write_on(value, step)
                                              : write(value);
      if (step.parts > 1 && !(step.replay && kept)) written_[all.index] = {step.part + 1, step.parts};
      step.outputs.push_back(has_rows ? part_of(all, value, step) : all);
    }
    if (gives_variable(node)) give_variable(node.inputs()[1], step.outputs[0].index);
  }

  /// Whoever reads the variable from here on reads the buffer.
  void give_variable(Value variable, int buffer) {
    schedule_.buffers[static_cast<std::size_t>(buffer)].other_names.push_back(variable);
    current_[variable] = buffer;
  }

  /// The part of a value that a step has, where `all` is all of it, or a buffer of that part alone.
  Operand part_of(Operand all, Value value, const Step& step) const {
    if (all.kind == Operand::Kind::buffer && schedule_.buffers[static_cast<std::size_t>(all.index)].parts > 1) {
      const int there = part_of_buffer_.at(all.index);
      SF_CHECK(there == step.part, InternalError, "schedule: step ", step_, " reads part ", step.part, " of '",
               value.name(), "', and there is part ", there);
      return all;
    }
    all.bytes = graph_.type(value).bytes() / static_cast<std::size_t>(step.parts);
    all.offset = all.bytes * static_cast<std::size_t>(step.part);
    return all;
  }

  Operand write_part(Value value, const Step& step) {
    const int index = add_buffer(value, step_);
    Buffer& buffer = schedule_.buffers[static_cast<std::size_t>(index)];
    buffer.bytes /= static_cast<std::size_t>(step.parts);
    buffer.parts = step.parts;
    part_of_buffer_[index] = step.part;
    return {Operand::Kind::buffer, index};
  }

  /// What an earlier part of the node has begun to write.
  Operand write_on(Value value, const Step& step) {
    const int buffer = buffer_of(value);
    const auto written = written_.find(buffer);
    SF_CHECK(written != written_.end() && written->second == std::pair(step.part, step.parts), InternalError,
             "schedule: step ", step_, " writes part ", step.part, " of '", value.name(),
             "', and the part before it is not written");
    schedule_.buffers[static_cast<std::size_t>(buffer)].life.last = step_;
    return {Operand::Kind::buffer, buffer};
  }

  /// All of a value.
  Operand read(Value value) { return read(value, kLastPart); }

  /// Of what is written in parts no further one than this.
  Operand read(Value value, int last_part) {
    if (is_variable(value) && !current_.contains(value)) return {Operand::Kind::variable, value.node().id()};
    const int buffer = buffer_of(value);
    const auto written = written_.find(buffer);
    if (written != written_.end()) {
      const auto [there, of] = written->second;
      SF_CHECK(std::min(last_part, of - 1) < there, InternalError, "schedule: step ", step_, " reads '", value.name(),
               "', of which ", there, " of ", of, " parts are written");
    }
    schedule_.buffers[static_cast<std::size_t>(buffer)].life.last = step_;
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
  ValuesInParts in_parts_;
  StepIndex step_ = 0;
  std::unordered_map<Value, int> current_;                // the device buffer in which each value was written last
  std::unordered_map<int, int> part_of_buffer_;           // of buffers that are parts: which
  std::unordered_map<int, std::pair<int, int>> written_;  // of whole buffers: so many of the parts that write it
  std::map<std::pair<int, Tier>, int> offloads_;          // the buffer of each offload in each tier off the device
  std::map<Value, int> staged_;  // variables whose home is on disk: the buffer in host memory that has one on its way
};

}  // namespace

const Buffer& carried_buffer(const Step& step, const Schedule& schedule) {
  const bool writes_variable = step.outputs[0].kind == Operand::Kind::variable;
  return schedule.buffers[static_cast<std::size_t>((writes_variable ? step.inputs[0] : step.outputs[0]).index)];
}

Schedule lower_instructions(const InstructionList& list, const ConcreteGraph& graph, std::size_t num_fetches,
                            CopyCarrier carrier) {
  Schedule schedule;
  schedule.passes = list.passes;
  schedule.fetches.resize(num_fetches);
  Lowering lowering(list, graph, schedule, carrier);
  for (const EntryValue& entry : list.entries) lowering.enter(entry);
  const auto num_steps = [&] { return static_cast<StepIndex>(schedule.steps.size()); };
  for (std::size_t i = 0; i < list.instructions.size(); ++i) {
    if (static_cast<int>(i) == list.half) schedule.half = num_steps();
    // A variable's copies, and what gathers it, are steps of no instruction of the writer's.
    const bool is_writers = !is_variable_transfer(list.instructions[i]) && !is_gather(list.instructions[i], graph);
    if (is_writers) schedule.step_of_instruction.push_back(num_steps());
    lowering.add(list.instructions[i]);
  }
  if (list.half >= static_cast<int>(list.instructions.size())) schedule.half = num_steps();
  for (std::size_t i = 0; i < num_fetches; ++i) {
    SF_CHECK(schedule.fetches[i].value.valid(), InternalError, "schedule: no instruction evaluates fetch ", i);
  }
  return schedule;
}

}  // namespace sectionflow

#include "fit/list_problem.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "fit/list_units.h"
#include "fit/nodes_before.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// The device buffers between which offloads carry a value: a value's stays on the device, of which the first is made
/// by an operation.
std::map<int, int> earlier_stays(const Schedule& schedule) {
  std::map<int, int> left;     // by offload: the buffer that is copied out
  std::map<int, int> earlier;  // by buffer that is copied in
  for (const Step& step : schedule.steps) {
    if (step.offload < 0) continue;
    if (step.kind == StepKind::copy_out) left[step.offload] = step.inputs[0].index;
    if (step.kind == StepKind::copy_in) earlier[step.outputs[0].index] = left.at(step.offload);
  }
  return earlier;
}

}  // namespace

ListProblem::ListProblem(InstructionList list, const Draft& draft, const PlanningTools& tools,
                         const std::vector<double>& seconds, const std::vector<double>& seconds_again, InPlaceRuns runs,
                         const MayRepeat& may_repeat)
    : list_(std::move(list)), graph_(&tools.graph()) {
  SF_CHECK(list_.entries.empty(), InternalError, "ListProblem: something was there before");
  const std::vector<ListUnit> units = list_units(list_, draft, tools, {seconds, seconds_again}, runs, may_repeat);
  add_operations(draft, units);
  add_order(units);
  planning::check_problem(problem_);
}

void ListProblem::add_operations(const Draft& draft, const std::vector<ListUnit>& units) {
  const std::vector<Buffer>& buffers = draft.schedule.buffers;
  const auto storage_of = [&](int buffer) { return draft.storage.storage_of_buffer[at(buffer)]; };
  const auto storage_bytes = [&](int storage) {
    return static_cast<std::int64_t>(round_up(draft.storage.storages[at(storage)].bytes));
  };
  const std::map<int, int> earlier = earlier_stays(draft.schedule);
  std::set<int> offloaded;
  for (const auto& [later, first] : earlier) offloaded.insert({later, first});
  const auto bytes_of = [&](int buffer) -> std::int64_t {
    const Value& value = buffers[at(buffer)].value;
    if (offloaded.contains(buffer) || (value.valid() && is_small_constant(value.node()))) return 0;
    return storage_bytes(storage_of(buffer));
  };
  std::vector<int> maker(buffers.size(), -1), last_reader(buffers.size(), -1), value_of(buffers.size(), -1);
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const ListUnit::Execution& execution : units[u].executions) {
      for (const int output : execution.outputs) maker[at(output)] = static_cast<int>(u);
      for (const int input : execution.inputs) last_reader[at(input)] = static_cast<int>(u);
    }
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    const ListUnit& unit = units[u];
    const Instruction& first = list_.instructions[at(unit.instructions.front())];
    const bool names_value = first.kind != StepKind::compute && first.kind != StepKind::feed;
    const NodeId node = names_value ? first.fetched.node().id() : first.node;
    planning::Operation operation;
    operation.name = graph_->graph().node(node).name();
    operation.seconds = unit.seconds;
    operation.seconds_again = unit.seconds_again;
    operation.repeatable = unit.repeatable;
    std::int64_t outputs = 0, most = 0;
    std::set<int> there;  // storages of what the unit has written, as long as they live
    for (const ListUnit::Execution& execution : unit.executions) {
      for (const int input : execution.inputs) {
        const bool own = maker[at(input)] == static_cast<int>(u);
        const bool known =
            std::find(operation.inputs.begin(), operation.inputs.end(), value_of[at(input)]) != operation.inputs.end();
        if (!own && !known) operation.inputs.push_back(value_of[at(input)]);
      }
      std::int64_t bytes = execution.workspace;
      std::erase_if(there, [&](int storage) { return draft.storage.storages[at(storage)].life.last < execution.step; });
      for (const int output : execution.outputs) there.insert(storage_of(output));
      for (const int storage : there) bytes += storage_bytes(storage);
      most = std::max(most, bytes);
      for (const int output : execution.outputs) {
        if (last_reader[at(output)] == static_cast<int>(u)) continue;  // nobody else sees it
        if (const auto stay = earlier.find(output); stay != earlier.end()) {
          value_of[at(output)] = value_of[at(stay->second)];
          continue;
        }
        value_of[at(output)] = static_cast<int>(problem_.values.size());
        operation.outputs.push_back(value_of[at(output)]);
        problem_.values.push_back({.name = buffers[at(output)].value.name(),
                                   .bytes = bytes_of(output),
                                   .producer = static_cast<int>(u),
                                   .movable = true,
                                   .needed_at_end = false});
        values_.push_back(buffers[at(output)].value);
        outputs += bytes_of(output);
      }
    }
    operation.workspace = std::max<std::int64_t>(most - outputs, 0);
    add_overwrites(draft, unit, value_of, operation);
    problem_.operations.push_back(std::move(operation));
    instructions_.push_back(unit.instructions);
  }
  for (const int buffer : offloaded) {
    for (int u = maker[at(buffer)] + 1; u <= last_reader[at(buffer)]; ++u)
      problem_.operations[at(u)].workspace += storage_bytes(storage_of(buffer));
  }
  for (const Buffer& buffer : buffers) {
    if (!is_scratch_of_ranks(buffer)) continue;
    for (std::size_t u = 0; u < units.size(); ++u) {
      const auto& executions = units[u].executions;
      const bool is_there = std::any_of(executions.begin(), executions.end(), [&](const ListUnit::Execution& each) {
        return buffer.life.overlaps({each.step, each.step});
      });
      if (is_there) problem_.operations[u].workspace += static_cast<std::int64_t>(round_up(buffer.bytes));
    }
  }
}

/// An output has another name at the unit's end where a later execution writes over it.
void ListProblem::add_overwrites(const Draft& draft, const ListUnit& unit, const std::vector<int>& value_of,
                                 planning::Operation& operation) const {
  const std::vector<int>& storages = draft.storage.storage_of_buffer;
  const auto& all = unit.executions;
  for (auto execution = all.begin(); execution != all.end(); ++execution) {
    for (const auto& [input, output] : execution->overwrites) {
      const int from = value_of[at(input)];
      const bool is_outside =
          std::find(operation.inputs.begin(), operation.inputs.end(), from) != operation.inputs.end();
      const bool is_read_later =
          std::any_of(execution + 1, all.end(), [buffer = input](const ListUnit::Execution& later) {
            return std::find(later.inputs.begin(), later.inputs.end(), buffer) != later.inputs.end();
          });
      if (!is_outside || is_read_later) continue;
      for (const ListUnit::Execution& later : all) {
        for (const int buffer : later.outputs) {
          const int to = value_of[at(buffer)];
          if (to < 0 || storages[at(buffer)] != storages[at(output)]) continue;
          if (problem_.values[at(from)].bytes == problem_.values[at(to)].bytes)
            operation.overwrites.push_back({from, to});
        }
      }
    }
  }
}

void ListProblem::add_order(const std::vector<ListUnit>& units) {
  std::map<NodeId, int> operation_of;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const int index : units[u].instructions) {
      const Instruction& instruction = list_.instructions[at(index)];
      if (instruction.kind == StepKind::compute || instruction.kind == StepKind::feed)
        operation_of.try_emplace(instruction.node, static_cast<int>(u));
    }
  }
  std::set<std::pair<int, int>> order, ends;
  NodesBefore before(*graph_, operation_of);
  for (const auto& [node, operation] : operation_of) {
    for (const int other : before.of(node)) {
      if (other < operation) order.emplace(other, operation);
    }
  }
  // Who reads a variable reads it before the same updates as in the list, and after the same.
  struct Access {
    std::vector<int> readers;  // since the latest update
    int update = -1;
  };
  std::map<NodeId, Access> accesses;
  for (int u = 0; u < static_cast<int>(units.size()); ++u) {
    const ListUnit& unit = units[at(u)];
    for (const NodeId variable : unit.reads) {
      Access& access = accesses[variable];
      if (access.update >= 0 && access.update != u) order.emplace(access.update, u);
      access.readers.push_back(u);
    }
    for (const NodeId variable : unit.changes) {
      Access& access = accesses[variable];
      if (access.update >= 0 && access.update != u) order.emplace(access.update, u);
      for (const int reader : access.readers) {
        if (reader != u) ends.emplace(reader, u);
      }
      access = {{}, u};
    }
  }
  problem_.order.assign(order.begin(), order.end());
  problem_.ends.assign(ends.begin(), ends.end());
}

}  // namespace sectionflow

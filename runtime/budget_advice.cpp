#include "runtime/budget_advice.h"

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/error.h"
#include "runtime/plan_memory.h"

namespace sectionflow {
namespace {

std::string described(const LiveTensor& tensor) {
  return text_of("'", tensor.name, "' ", tensor.type, " (", bytes_text(tensor.bytes), ")");
}

constexpr int kNowhere = -1;
const std::string kUsualAdvice = "cut the graph into more sections near this step, or make the batch smaller";

/// Where an operand lies in device memory, variables left out.
int storage_of(const Operand& operand, const Program& program) {
  if (operand.kind != Operand::Kind::buffer) return kNowhere;
  const auto index = static_cast<std::size_t>(operand.index);
  return program.schedule.buffers[index].tier == Tier::device ? program.storage.storage_of_buffer[index] : kNowhere;
}

/// What another plan would save in which the step's outputs lie over its inputs, as far as its kernel lets them.
std::size_t in_place_bytes(const Step& step, const Program& program) {
  std::set<int> taken;
  std::size_t bytes = 0;
  for (const InPlace& pair : program.kernels[static_cast<std::size_t>(step.slot)]->in_place()) {
    const int input = storage_of(step.inputs[static_cast<std::size_t>(pair.input)], program);
    const int output = storage_of(step.outputs[static_cast<std::size_t>(pair.output)], program);
    if (input == kNowhere || output == kNowhere || input == output) continue;
    if (taken.contains(input) || taken.contains(output)) continue;
    taken.insert({input, output});
    bytes += round_up(program.storage.storages[static_cast<std::size_t>(output)].bytes);
  }
  return bytes;
}

/// The least device memory that the operands of one step take in any plan, each storage once.
std::size_t operand_bytes(const Step& step, const Program& program) {
  std::set<int> storages;
  const auto add = [&](const Operand& operand) {
    const int storage = storage_of(operand, program);
    if (storage != kNowhere) storages.insert(storage);
  };
  for (const auto* operands : {&step.inputs, &step.outputs, &step.updated}) {
    std::for_each(operands->begin(), operands->end(), add);
  }
  add(step.workspace);
  // Whichever lies on top need not be followed by anything.
  std::size_t bytes = 0, most_rounded = 0;
  for (int storage : storages) {
    const std::size_t exact = program.storage.storages[static_cast<std::size_t>(storage)].bytes;
    bytes += round_up(exact);
    most_rounded = std::max(most_rounded, round_up(exact) - exact);
  }
  return bytes - most_rounded - std::min(bytes - most_rounded, in_place_bytes(step, program));
}

/// Variables at home in host memory, up to where the first tensor may lie.
std::size_t bytes_before_host_tensors(const ProgramReport& report) {
  return round_up(report.host_persistent_bytes, alignment_of(Tier::host));
}

/// A tensor at the fullest step that might rest elsewhere if host memory were not too small for it; null: there is
/// none.
const LiveTensor* too_large_for_host(const ProgramReport& report) {
  const bool may_rest = report.disk_budget_bytes > 0 || report.bytes_out > 0 || !report.advice.empty();
  if (!may_rest) return nullptr;
  const std::size_t room =
      report.host_budget_bytes - std::min(report.host_budget_bytes, bytes_before_host_tensors(report));
  const auto found = std::find_if(report.largest_live.begin(), report.largest_live.end(),
                                  [&](const LiveTensor& live) { return live.bytes > room && live.type != "scratch"; });
  return found == report.largest_live.end() ? nullptr : &*found;
}

}  // namespace

void report_largest(const Program& program, const ConcreteGraph& graph, ProgramReport& report) {
  for (const Step& step : program.schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const std::size_t bytes = operand_bytes(step, program);
    if (bytes <= report.largest_operation.bytes) continue;
    report.largest_operation = {graph.graph().node(step.node).label(), "", bytes};
  }
  for (const Buffer& buffer : program.schedule.buffers) {
    if (buffer.tier != Tier::host || buffer.bytes <= report.largest_on_host.bytes) continue;
    report.largest_on_host = {buffer.value.name(), graph.type(buffer.value).text(), buffer.bytes};
  }
}

std::string device_advice(const ProgramReport& report) {
  if (report.persistent_bytes > report.budget_bytes) {
    return "the variables alone exceed device_memory: let them rest on the host (SessionOptions::swap_variables), take "
           "an optimizer with fewer slots, or make the model smaller; no cut into sections helps";
  }
  const LiveTensor& operation = report.largest_operation;
  if (round_up(report.persistent_bytes) + operation.bytes > report.budget_bytes) {
    return text_of(
        operation.name, " alone needs ", bytes_text(operation.bytes), " for its operands and scratch",
        report.persistent_bytes > 0 ? text_of(", beside ", bytes_text(report.persistent_bytes), " of variables") : "",
        ": make the batch smaller, or compute it in parts",
        report.persistent_bytes > 0 ? ", or let variables rest on the host (SessionOptions::swap_variables)" : "",
        "; no cut into sections helps");
  }
  if (const LiveTensor* large = too_large_for_host(report)) {
    return text_of("host_memory of ", bytes_text(report.host_budget_bytes), " is too small for ", described(*large),
                   ", which so cannot leave the device, not even for the disk: give at least ",
                   bytes_before_host_tensors(report) + large->bytes, " bytes of host_memory, ",
                   // What keeps it on the device besides.
                   report.advice.empty() ? kUsualAdvice : report.advice);
  }
  return report.advice.empty() ? kUsualAdvice : report.advice;
}

std::string host_advice(const ProgramReport& report) {
  if (report.host_persistent_bytes > report.host_budget_bytes) {
    return "the variables that are at home in host memory exceed it alone: give more host_memory, or leave "
           "swap_variables out";
  }
  const LiveTensor& largest = report.largest_on_host;
  if (report.host_persistent_bytes + largest.bytes > report.host_budget_bytes) {
    return text_of(described(largest), " alone is larger than what host_memory has left for it",
                   report.disk_budget_bytes > 0 ? ", and passes through it as a whole on its way to the disk" : "",
                   ": give more host_memory, more device_memory, or make the batch smaller");
  }
  return report.disk_budget_bytes > 0
             ? "give more host memory, or more device memory, so that less must rest elsewhere"
             : "give more host memory, a disk (SessionOptions::disk), or more device memory, so that less must rest "
               "elsewhere";
}

std::string disk_advice(const ProgramReport& report) {
  if (report.disk_budget_bytes == 0) {
    return "give the bytes that may rest on the disk (SessionOptions::disk), or more host or device memory";
  }
  return "give a larger disk, or more host or device memory, so that less must rest there";
}

}  // namespace sectionflow

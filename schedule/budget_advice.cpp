#include "schedule/budget_advice.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "schedule/node_parts.h"
#include "schedule/plan_memory.h"

namespace sectionflow {
namespace {

std::string described(const LiveTensor& tensor) {
  return text_of("'", tensor.name, "' ", tensor.type, " (", bytes_text(tensor.bytes), ")");
}

constexpr int kNowhere = -1;

/// An instruction list that was lowered, as a program has it or a draft.
struct Lowered {
  const Schedule& schedule;
  const StorageAssignment& storage;
  const std::vector<std::unique_ptr<Kernel>>& kernels;
};
Lowered lowered(const Program& program) {
  return {program.schedule, program.storage, program.kernels};
}

/// Where an operand lies in device memory, variables left out.
int storage_of(const Operand& operand, const Lowered& program) {
  if (operand.kind != Operand::Kind::buffer) return kNowhere;
  const auto index = static_cast<std::size_t>(operand.index);
  return program.schedule.buffers[index].tier == Tier::device ? program.storage.storage_of_buffer[index] : kNowhere;
}

/// What another plan would save in which the step's outputs lie over its inputs, as far as its kernel lets them.
std::size_t in_place_bytes(const Step& step, const Lowered& program) {
  std::vector<std::pair<int, int>> pairs;
  const auto may_share = [&](const Operand& operand) {
    return step.parts == 1 || (operand.kind == Operand::Kind::buffer &&
                               program.schedule.buffers[static_cast<std::size_t>(operand.index)].parts > 1);
  };
  for (const InPlace& pair : program.kernels[static_cast<std::size_t>(step.slot)]->in_place()) {
    const Operand& from = step.inputs[static_cast<std::size_t>(pair.input)];
    const Operand& to = step.outputs[static_cast<std::size_t>(pair.output)];
    if (may_share(from) && may_share(to)) pairs.emplace_back(storage_of(from, program), storage_of(to, program));
  }
  std::set<int> taken = {kNowhere};
  for (const auto& [input, output] : pairs) {
    if (input == output) taken.insert(output);  // it does already, and over this input alone
  }
  std::size_t bytes = 0;
  for (const auto& [input, output] : pairs) {
    if (taken.contains(input) || taken.contains(output)) continue;
    taken.insert({input, output});
    bytes += round_up(program.storage.storages[static_cast<std::size_t>(output)].bytes);
  }
  return bytes;
}

/// The least device memory that the operands of one step take in any plan, each storage once; of those alone that
/// `counts` says, and scratch if that is to count.
std::size_t operand_bytes(const Step& step, const Lowered& program,
                          const std::function<bool(const Operand&)>& counts = {}) {
  std::set<int> storages;
  const auto add = [&](const Operand& operand) {
    const int storage = storage_of(operand, program);
    if (storage != kNowhere && (!counts || counts(operand))) storages.insert(storage);
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

/// Variables whose home tier is the host, up to where the first tensor may lie.
std::size_t bytes_before_host_tensors(const ProgramReport& report) {
  return round_up(report.host_persistent_bytes, alignment_of(Tier::host));
}

/// A tensor at the fullest step that might be offloaded if host memory were not too small for it; null: there is none.
const LiveTensor* too_large_for_host(const ProgramReport& report) {
  const bool may_offload =
      report.disk_budget_bytes > 0 || report.bytes_out > 0 || report.may_swap || !report.advice.empty();
  if (!may_offload) return nullptr;
  const std::size_t left =
      report.host_budget_bytes - std::min(report.host_budget_bytes, bytes_before_host_tensors(report));
  const auto found = std::find_if(report.largest_live.begin(), report.largest_live.end(),
                                  [&](const LiveTensor& live) { return live.bytes > left && live.type != "scratch"; });
  return found == report.largest_live.end() ? nullptr : &*found;
}

/// What the step reads and changes of variables whose home tier is the device.
std::size_t variable_bytes(const Step& step, const ConcreteGraph& graph) {
  std::set<int> variables;
  for (const auto* operands : {&step.inputs, &step.outputs, &step.updated}) {
    for (const Operand& operand : *operands) {
      if (operand.kind == Operand::Kind::variable) variables.insert(operand.index);
    }
  }
  std::size_t bytes = 0;
  for (int variable : variables) bytes += graph.types(variable)[0].bytes();
  return bytes;
}

/// Whether the node computes from data that is fed, scalars such as a learning rate left out.
bool reads_data(NodeId id, const Graph& graph) {
  std::set<NodeId> seen;
  std::vector<NodeId> open{id};
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    if (!seen.insert(node.id()).second) continue;
    if (node.op().is_placeholder() && node.output_types()[0].shape.rank() > 0) return true;
    for (const Value& input : node.inputs()) open.push_back(input.node().id());
  }
  return false;
}

bool is_open(const TensorType& type) {
  return !type.shape.is_static();
}
bool leaves_batch_open(const Schedule& schedule, const Graph& graph) {
  return std::any_of(schedule.feeds.begin(), schedule.feeds.end(),
                     [&](NodeId feed) { return is_open(graph.node(feed).output_types()[0]); });
}

/// Whether a batch of another size changes what the step's operands take. Where the graph leaves the batch open, their
/// types tell; where it does not, all but updates that computes from data may change with it.
bool changes_with_batch(const Step& step, const Schedule& schedule, const Graph& graph) {
  const Node& node = graph.node(step.node);
  const auto& outputs = node.output_types();
  const auto& inputs = node.inputs();
  if (std::any_of(outputs.begin(), outputs.end(), is_open) ||
      std::any_of(inputs.begin(), inputs.end(), [&](const Value& input) { return is_open(input.type()); })) {
    return true;
  }
  if (leaves_batch_open(schedule, graph) || node.op().is_update()) return false;
  return reads_data(step.node, graph);
}

/// What of the step's operands is as large in any batch: where the graph leaves the batch open, their types tell.
std::size_t fixed_bytes(const Step& step, const Program& program, const Graph& graph) {
  const Schedule& schedule = program.schedule;
  if (!leaves_batch_open(schedule, graph)) return 0;
  return operand_bytes(step, lowered(program), [&](const Operand& operand) {
    const Value& value = schedule.buffers[static_cast<std::size_t>(operand.index)].value;
    return value.valid() && !is_open(value.type());
  });
}

/// Which dimensions of what is fed may be smaller: those that the graph leaves open; where it leaves none open, the
/// first of each, which the user would make anew.
void report_feeds(const Schedule& schedule, const ConcreteGraph& graph, ProgramReport& report) {
  report.has_batch = report.has_open_length = false;
  const bool leaves_open = leaves_batch_open(schedule, graph.graph());
  for (NodeId feed : schedule.feeds) {
    const Shape& fed = graph.signature().shapes.at(feed);
    const Shape& placeholder = graph.graph().node(feed).output_types()[0].shape;
    for (int i = 0; i < fed.rank(); ++i) {
      const bool is_open = leaves_open ? placeholder[i] == kDynamic : i == 0;
      if (!is_open || fed[i] <= 1) continue;
      (i == 0 ? report.has_batch : report.has_open_length) = true;
    }
  }
}

/// How less may be fed; empty: it cannot.
std::string smaller_feeds(const ProgramReport& report) {
  if (report.has_batch) return "make the batch smaller";
  return report.has_open_length ? "feed fewer elements in the dimensions that the graph leaves open" : "";
}

/// "a, or b, or c", without those that are empty.
std::string joined(const std::vector<std::string>& ways) {
  std::string text;
  for (const std::string& way : ways) {
    if (!way.empty()) text += (text.empty() ? "" : ", or ") + way;
  }
  return text;
}

/// The ways that are left where no operation alone is too large, by the kind of the program.
std::string usual_advice(const ProgramReport& report) {
  if (report.initializes) return "give more device_memory, or make the model smaller";
  std::string advice;
  const auto add = [&](const std::string& way) { advice = joined({advice, way}); };
  // Offloads are for the instruction list to say, or for the graph: not for both.
  if (!report.may_swap && !report.is_edited) {
    add("have what the budget demands computed again and offloaded (fit_budget(session))");
  }
  if (report.is_edited) {
    add("build the graph anew and have Lms swap more of it (a swapout_threshold that is lower, if it is above 1, "
        "or its tuner for this memory)");
  } else if (report.trains && report.in_sections) {
    add("train by the graph's sections (GraphSectionManager::run_full_cycle), which this run leaves unused");
  } else if (report.trains) {
    add("cut the graph into sections and train by them (GraphSectionManager::run_full_cycle)");
  }
  add(smaller_feeds(report));
  return advice.empty() ? "give more device_memory" : advice;
}

/// What to do where the operands of one operation are too large.
std::string operation_advice(const ProgramReport& report) {
  const LiveTensor& operation = report.largest_operation;
  // What its own operands leave no room for does not fit with the variables gone either.
  const bool swaps_help = report.persistent_bytes > 0 && report.largest_with_variables.bytes <= report.budget_bytes;
  const std::string smaller = smaller_feeds(report);
  const bool batch_helps = report.batch_changes_largest && !smaller.empty() &&
                           round_up(report.persistent_bytes) + report.largest_fixed_bytes <= report.budget_bytes;
  return text_of(
      operation.name, " alone needs ", bytes_text(operation.bytes), " for its operands and scratch",
      report.persistent_bytes > 0 ? text_of(", beside ", bytes_text(report.persistent_bytes), " of variables") : "",
      batch_helps
          ? ": " + smaller + (report.may_swap ? "" : ", or let it run in parts, if it may (fit_budget(session))")
          : ": give more device_memory, or make the tensors of the model that it works on smaller",
      swaps_help ? ", or keep variables in host memory (SessionOptions::swap_variables)" : "",
      batch_helps ? "" : "; no other batch helps", "; no cut into sections helps");
}

/// What to do where the variables alone are too large.
std::string variables_advice(const ProgramReport& report) {
  const LiveTensor& operation = report.largest_with_variables;
  if (operation.bytes <= report.budget_bytes) {
    return "the variables alone exceed device_memory: keep them in host memory (SessionOptions::swap_variables), take "
           "an optimizer with fewer slots, or make the model smaller; no cut into sections helps";
  }
  return text_of(
      "the variables alone exceed device_memory, and ", operation.name, " needs ", bytes_text(operation.bytes),
      " for its operands with its variables, so that it would not fit if they "
      "were kept in host memory: give more device_memory, or make the model smaller; no cut into sections helps");
}

/// What the writer of the instruction list knows to help, or else the usual.
std::string written_or_usual_advice(const ProgramReport& report) {
  if (report.advice.empty() && report.first_advice.empty()) return usual_advice(report);
  return joined({report.first_advice, report.advice, smaller_feeds(report)});
}

/// How less would be offloaded.
std::string fewer_offloads(const ProgramReport& report) {
  if (report.is_edited) return "have Lms swap less of the graph (a higher swapout_threshold)";
  if (report.forces_offloads) {
    return "let the budgets decide what is offloaded (BorderPolicy::automatic, InteriorPolicy::automatic)";
  }
  return "give more device memory, so that less must be offloaded";
}

}  // namespace

LiveTensor largest_operation(const Draft& draft, const std::vector<std::unique_ptr<Kernel>>& kernels,
                             const Graph& graph) {
  const Lowered list{draft.schedule, draft.storage, kernels};
  LiveTensor largest;
  for (const Step& step : draft.schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const std::size_t bytes = operand_bytes(step, list);
    if (bytes > largest.bytes) largest = {label_of(step, graph), "", bytes};
  }
  return largest;
}

void report_largest(const Program& program, const ConcreteGraph& graph, ProgramReport& report) {
  const Schedule& schedule = program.schedule;
  report.in_sections = report.is_edited = false;
  report.trains = program.advances_cycle || program.micro_batch;
  for (NodeId id = 0; id < graph.graph().num_nodes(); ++id) {
    report.is_edited = report.is_edited || graph.graph().node(id).op().movement == Movement::out;
  }
  for (const Step& step : schedule.steps) {
    if (step.kind != StepKind::compute) continue;
    const Node& node = graph.graph().node(step.node);
    report.in_sections = report.in_sections || node.group() != kNoGroup;
    const std::size_t bytes = operand_bytes(step, lowered(program)),
                      with_variables = bytes + variable_bytes(step, graph);
    if (with_variables > report.largest_with_variables.bytes) {
      report.largest_with_variables = {label_of(step, graph.graph()), "", with_variables};
    }
    if (bytes <= report.largest_operation.bytes) continue;
    report.largest_operation = {label_of(step, graph.graph()), "", bytes};
    report.batch_changes_largest = changes_with_batch(step, schedule, graph.graph());
    report.largest_fixed_bytes = fixed_bytes(step, program, graph.graph());
  }
  report_feeds(schedule, graph, report);
  for (const Buffer& buffer : program.schedule.buffers) {
    if (buffer.tier != Tier::host || buffer.bytes <= report.largest_on_host.bytes) continue;
    report.largest_on_host = {buffer.value.name(), graph.type(buffer.value).text(), buffer.bytes};
  }
}

std::string device_advice(const ProgramReport& report) {
  if (report.persistent_bytes > report.budget_bytes) return variables_advice(report);
  if (round_up(report.persistent_bytes) + report.largest_operation.bytes > report.budget_bytes) {
    return operation_advice(report);
  }
  if (const LiveTensor* large = too_large_for_host(report)) {
    return text_of("host_memory of ", bytes_text(report.host_budget_bytes), " is too small for ", described(*large),
                   ", which so cannot leave the device, not even for the disk: give at least ",
                   bytes_before_host_tensors(report) + large->bytes, " bytes of host_memory, ",
                   // What keeps it on the device besides.
                   written_or_usual_advice(report));
  }
  return written_or_usual_advice(report);
}

std::string host_advice(const ProgramReport& report) {
  if (report.host_persistent_bytes > report.host_budget_bytes) {
    const std::string on_disk = !report.has_disk_homes ? ""
                                : report.disk_budget_bytes == 0
                                    ? "give a disk, where some may lie (SessionOptions::disk)"
                                    : "give a larger disk, where more may lie";
    return "the variables whose home tier is the host exceed host memory alone: " +
           joined({"give more host_memory", on_disk, "leave swap_variables out"});
  }
  if (!report.first_advice.empty()) return joined({report.first_advice, "give more host_memory"});
  const LiveTensor& largest = report.largest_on_host;
  if (report.host_persistent_bytes + largest.bytes > report.host_budget_bytes) {
    return text_of(described(largest), " alone is larger than what host_memory has left for it",
                   report.disk_budget_bytes > 0 ? ", and passes through it as a whole on its way to the disk" : "",
                   ": ", joined({"give more host_memory", fewer_offloads(report), smaller_feeds(report)}));
  }
  if (report.disk_budget_bytes == 0) {
    return joined({"give more host memory", "give a disk (SessionOptions::disk)", fewer_offloads(report)});
  }
  // What the disk has left would hold what host memory has not: another reason keeps it there.
  const std::size_t left = report.disk_budget_bytes - std::min(report.disk_budget_bytes, report.disk_peak_bytes);
  const bool disk_is_small = left < report.host_peak_bytes - report.host_budget_bytes;
  const std::string larger_disk =
      text_of("give a larger disk, which is too small for this too (", bytes_text(report.disk_budget_bytes), ")");
  return joined({"give more host memory", disk_is_small ? larger_disk : "", fewer_offloads(report)});
}

std::string disk_advice(const ProgramReport& report) {
  if (!report.first_advice.empty()) return joined({report.first_advice, "give a larger disk (SessionOptions::disk)"});
  if (report.disk_budget_bytes == 0) {
    return "give the bytes that may be offloaded to the disk (SessionOptions::disk), or more host or device memory";
  }
  return "give a larger disk, or more host or device memory, so that less must be offloaded to it";
}

}  // namespace sectionflow

#include "swap/step_times.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

/// Seconds of `bytes` at a rate, where the carrier's speed and that of a throttle meet.
double carried_seconds(double bytes, double rate, double throttle, CopyCarrier carrier) {
  const double copied = bytes / rate;
  if (throttle == 0) return copied;
  // A copy thread moves a piece while the piece before it passes the link; the team copies first and waits then.
  return carrier == CopyCarrier::threads ? std::max(copied, bytes / throttle) : copied + bytes / throttle;
}

/// Of one part of a node. What all parts read is read by each, and so is a sum that they add to.
Work work_of_part(const ConcreteGraph& graph, const Step& step) {
  Work work = work_of(graph, step.node);
  const NodeParts parts = parts_of_node(graph, step.node).value();
  work.flops /= step.parts;
  work.bytes = 0;
  const auto add = [&](const TensorType& type, PartUse use) {
    const double share = use == PartUse::rows ? step.parts : use == PartUse::sum && step.part > 0 ? 0.5 : 1;
    work.bytes += static_cast<double>(type.bytes()) / share;
  };
  const Node& node = graph.graph().node(step.node);
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (graph.uses(step.node)[i] == InputUse::data) add(graph.type(node.inputs()[i]), parts.uses.inputs[i]);
  }
  for (std::size_t i = 0; i < graph.types(step.node).size(); ++i) add(graph.types(step.node)[i], parts.uses.outputs[i]);
  return work;
}

double estimated_seconds(const ConcreteGraph& graph, const Step& step, const Profile& profile) {
  const Work work = step.parts > 1 ? work_of_part(graph, step) : work_of(graph, step.node);
  return profile.launch_seconds + std::max(work.flops / profile.flops, work.bytes / profile.memory_bandwidth);
}

}  // namespace

std::string kernel_key(const ConcreteGraph& graph, const Step& step, const Kernel& kernel) {
  const Node& node = graph.graph().node(step.node);
  std::string key = text_of(node.label(), step.replay ? " again" : "", " by ", kernel.implementation(), ":");
  const std::vector<TensorType> inputs = graph.input_types(step.node);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    key += text_of(" ", inputs[i].text());
    const auto& boolean = graph.booleans(step.node)[i];
    if (boolean) key += *boolean ? "=true" : "=false";
  }
  key += " ->";
  for (const TensorType& output : graph.types(step.node)) key += text_of(" ", output.text());
  if (step.parts > 1)
    key += text_of(", one of ", step.parts, " parts", adds_to_sums(graph, step.node, step.part) ? " that adds" : "");
  return key;
}

double StepTimes::transfer(StepKind kind, std::size_t bytes) const {
  const double throttle = link_bandwidth_;
  const auto amount = static_cast<double>(bytes);
  switch (kind) {
    case StepKind::copy_out:
      return profile_.launch_seconds + carried_seconds(amount, profile_.link_out, throttle, carrier_);
    case StepKind::copy_in:
      return profile_.launch_seconds + carried_seconds(amount, profile_.link_in, throttle, carrier_);
    case StepKind::disk_write:
      return profile_.launch_seconds + amount / profile_.disk_out;
    case StepKind::disk_read:
      return profile_.launch_seconds + amount / profile_.disk_in;
    default:
      throw InternalError("StepTimes::transfer: the step carries nothing between tiers");
  }
}

double StepTimes::link_rate() const {
  const double slower = std::min(profile_.link_out, profile_.link_in);
  return link_bandwidth_ > 0 ? std::min(slower, link_bandwidth_) : slower;
}

double StepTimes::of_kernel(const Step& step) {
  const auto slot = static_cast<std::size_t>(step.slot);
  if (by_slot_.size() <= slot) by_slot_.resize(slot + 1, -1);
  if (by_slot_[slot] < 0) {
    const Kernel& kernel = *kernels_[slot];
    const auto& seconds = profile_.kernel_seconds;
    auto known = seconds.find(kernel_key(graph_, step, kernel));
    if (known == seconds.end() && step.replay) {
      Step first = step;
      first.replay = false;
      known = seconds.find(kernel_key(graph_, first, kernel));
    }
    by_slot_[slot] = known != seconds.end() ? known->second : unmeasured(step, kernel);
  }
  return by_slot_[slot];
}

/// Of a part as much as its share is of the whole, where that was measured: both are then told apart by one clock.
double StepTimes::unmeasured(const Step& step, const Kernel& kernel) const {
  const double estimated = estimated_seconds(graph_, step, profile_);
  if (step.parts == 1) return estimated;
  Step whole = step;
  whole.part = 0, whole.parts = 1;
  const auto known = profile_.kernel_seconds.find(kernel_key(graph_, whole, kernel));
  if (known == profile_.kernel_seconds.end()) return estimated;
  return known->second * (estimated / estimated_seconds(graph_, whole, profile_));
}

double StepTimes::again(const Step& step) {
  Step repeated = step;
  repeated.replay = true;
  const auto& seconds = profile_.kernel_seconds;
  const auto known = seconds.find(kernel_key(graph_, repeated, *kernels_[static_cast<std::size_t>(step.slot)]));
  return known != seconds.end() ? known->second : of_kernel(step);
}

std::vector<double> StepTimes::of(const Schedule& schedule) {
  std::vector<double> seconds;
  const auto bytes_of = [&](const Operand& operand) {
    return operand.kind == Operand::Kind::buffer ? schedule.buffers[static_cast<std::size_t>(operand.index)].bytes : 0;
  };
  for (const Step& step : schedule.steps) {
    switch (step.kind) {
      case StepKind::compute:
        seconds.push_back(of_kernel(step));
        break;
      case StepKind::feed:
      case StepKind::fetch: {
        const std::size_t bytes = bytes_of(step.kind == StepKind::feed ? step.outputs[0] : step.inputs[0]);
        seconds.push_back(profile_.launch_seconds + static_cast<double>(bytes) / profile_.memory_bandwidth);
        break;
      }
      case StepKind::hold:
        seconds.push_back(0);
        break;
      default:
        seconds.push_back(transfer(step.kind, carried_buffer(step, schedule).bytes));
    }
  }
  return seconds;
}

std::vector<double> StepTimes::drags_of(const Schedule& schedule) const {
  std::vector<double> drags;
  for (const Step& step : schedule.steps) {
    const bool is_copy = step.kind == StepKind::copy_out || step.kind == StepKind::copy_in;
    drags.push_back(is_copy ? drag(carried_buffer(step, schedule).bytes) : 0);
  }
  return drags;
}

Work work_of(const ConcreteGraph& graph, NodeId id) {
  Work work;
  const Node& node = graph.graph().node(id);
  const std::vector<TensorType> inputs = graph.input_types(id);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graph.uses(id)[i] == InputUse::data) work.bytes += static_cast<double>(inputs[i].bytes());
  }
  for (const TensorType& output : graph.types(id)) work.bytes += static_cast<double>(output.bytes());
  if (node.op().flops) work.flops = node.op().flops(inputs, graph.types(id));
  return work;
}

}  // namespace sectionflow

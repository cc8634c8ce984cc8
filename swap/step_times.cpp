#include "swap/step_times.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace sectionflow {
namespace {

/// Seconds of `bytes` at a rate, where the carrier's speed and that of a throttle meet.
double carried_seconds(double bytes, double rate, double throttle, CopyCarrier carrier) {
  const double copied = bytes / rate;
  if (throttle == 0) return copied;
  // A copy thread moves a piece while the piece before it passes the link; the team copies first and waits then.
  return carrier == CopyCarrier::threads ? std::max(copied, bytes / throttle) : copied + bytes / throttle;
}

double estimated_seconds(const ConcreteGraph& graph, NodeId id, const Profile& profile) {
  const Work work = work_of(graph, id);
  return profile.launch_seconds + std::max(work.flops / profile.flops, work.bytes / profile.memory_bandwidth);
}

}  // namespace

std::string kernel_key(const ConcreteGraph& graph, const Step& step, const Kernel& kernel) {
  const Node& node = graph.graph().node(step.node);
  std::string key = text_of(node.label(), step.replay ? " again" : "", " by ", kernel.implementation(), ":");
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    key += text_of(" ", graph.type(node.inputs()[i]).text());
    const auto& boolean = graph.booleans(step.node)[i];
    if (boolean) key += *boolean ? "=true" : "=false";
  }
  key += " ->";
  for (const TensorType& output : graph.types(step.node)) key += text_of(" ", output.text());
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
    by_slot_[slot] = known != seconds.end() ? known->second : estimated_seconds(graph_, step.node, profile_);
  }
  return by_slot_[slot];
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

Work work_of(const ConcreteGraph& graph, NodeId id) {
  Work work;
  const Node& node = graph.graph().node(id);
  std::vector<TensorType> inputs;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    inputs.push_back(graph.type(node.inputs()[i]));
    if (graph.uses(id)[i] == InputUse::data) work.bytes += static_cast<double>(inputs.back().bytes());
  }
  for (const TensorType& output : graph.types(id)) work.bytes += static_cast<double>(output.bytes());
  if (node.op().flops) work.flops = node.op().flops(inputs, graph.types(id));
  return work;
}

}  // namespace sectionflow

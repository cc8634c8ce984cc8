#include "schedule/prepare_kernels.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/kernel_registry.h"
#include "schedule/node_parts.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_kernel(const Step& step, const ConcreteGraph& graph, Device& device) {
  const Node& node = graph.graph().node(step.node);
  KernelRequest request{.node = node,
                        .inputs = graph.input_types(step.node),
                        .outputs = graph.types(step.node),
                        .host_booleans = graph.booleans(step.node),
                        .replay = step.replay,
                        .device = device};
  if (step.parts > 1) {
    SF_CHECK(device.kind() == DeviceKind::cpu, InternalError, node.label(), ": part ", step.part, " of ", step.parts,
             ", which only kernels of a CPU promise the same bits for");
    const NodeParts parts = parts_of_node(graph, step.node).value();
    const auto take_part = [&](std::vector<TensorType>& types, const std::vector<PartUse>& uses) {
      for (std::size_t i = 0; i < types.size(); ++i) {
        if (uses[i] == PartUse::rows) types[i] = type_of_part(types[i], step.parts);
      }
    };
    take_part(request.inputs, parts.uses.inputs);
    take_part(request.outputs, parts.uses.outputs);
    request.part = NodePart{.rows = parts.rows, .adds = adds_to_sums(graph, step.node, step.part)};
  }
  return kernel_registry(device.kind()).make(request);
}

Operand add_scratch(Schedule& schedule, std::size_t bytes, Life life) {
  schedule.buffers.push_back({.value = {}, .bytes = bytes, .life = life, .fixed_offset = {}});
  return {Operand::Kind::buffer, static_cast<int>(schedule.buffers.size()) - 1};
}

/// The step before the first that reads what `step` makes, or before `end`; that one has to wait for it anyway.
StepIndex last_before_reader(const Schedule& schedule, StepIndex step, StepIndex end) {
  const std::vector<Operand>& made = schedule.steps[static_cast<std::size_t>(step)].outputs;
  const auto is_made = [&](const Operand& operand) {
    return std::any_of(made.begin(), made.end(), [&](const Operand& each) {
      return operand.kind == Operand::Kind::buffer && operand.kind == each.kind && operand.index == each.index;
    });
  };
  for (StepIndex reader = step + 1; reader < end; ++reader) {
    const std::vector<Operand>& inputs = schedule.steps[static_cast<std::size_t>(reader)].inputs;
    if (std::any_of(inputs.begin(), inputs.end(), is_made)) return reader - 1;
  }
  return std::max(step, end - 1);
}

/// What ranks are given of a value that dies with it is there until they have it, unless what they give back lies
/// there.
void keep_inputs(Schedule& schedule, StepIndex step, StepIndex end, const std::vector<InPlace>& in_place) {
  const std::vector<Operand>& inputs = schedule.steps[static_cast<std::size_t>(step)].inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_taken_over = std::any_of(in_place.begin(), in_place.end(),
                                           [&](const InPlace& pair) { return pair.input == static_cast<int>(i); });
    if (inputs[i].kind != Operand::Kind::buffer || is_taken_over) continue;
    Life& life = schedule.buffers[static_cast<std::size_t>(inputs[i].index)].life;
    if (life.last == step) life.last = last_before_reader(schedule, step, end);
  }
}

/// The scratch of what communicates in one half of a cycle: one place, which these steps have in turn.
class ScratchOfRanks {
 public:
  void add(StepIndex step, std::size_t bytes) {
    bytes_ = std::max(bytes_, bytes);
    steps_.push_back(step);
  }

  /// Nothing that is computed before the last result is read may wait for a step to be over: it gets other bytes.
  /// `end`: of the half.
  void book(Schedule& schedule, StepIndex end) const {
    if (steps_.empty()) return;
    const Operand scratch =
        add_scratch(schedule, bytes_, {steps_.front(), last_before_reader(schedule, steps_.back(), end)});
    for (const StepIndex step : steps_) schedule.steps[static_cast<std::size_t>(step)].workspace = scratch;
  }

 private:
  std::vector<StepIndex> steps_;
  std::size_t bytes_ = 0;
};

}  // namespace

void KernelCache::prepare(Schedule& schedule) {
  std::array<ScratchOfRanks, 2> of_ranks;  // by half
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    const std::tuple key(step.node, step.replay, step.parts, adds_to_sums(graph_, step.node, step.part));
    if (!slots_.contains(key)) {
      kernels_.push_back(make_kernel(step, graph_, device_));
      slots_[key] = static_cast<int>(kernels_.size()) - 1;
    }
    step.slot = slots_.at(key);
    const auto now = static_cast<StepIndex>(i);
    const Kernel& kernel = *kernels_[static_cast<std::size_t>(step.slot)];
    const StepIndex end = now < schedule.half ? schedule.half : static_cast<StepIndex>(schedule.steps.size());
    if (step.lane == Lane::communicate) keep_inputs(schedule, now, end, kernel.in_place());
    const std::size_t scratch = kernel.workspace_bytes();
    if (scratch == 0) continue;
    SF_CHECK(scratch <= std::size_t{1} << 62, InternalError, graph_.graph().node(step.node).label(),
             ": its kernel wants ", scratch, " bytes of workspace");
    if (step.lane == Lane::communicate) {
      of_ranks[now < schedule.half ? 0 : 1].add(now, guarded_scratch(scratch));
    } else {
      step.workspace = add_scratch(schedule, guarded_scratch(scratch), {now, now});
    }
  }
  of_ranks[0].book(schedule, schedule.half);
  of_ranks[1].book(schedule, static_cast<StepIndex>(schedule.steps.size()));
}

}  // namespace sectionflow

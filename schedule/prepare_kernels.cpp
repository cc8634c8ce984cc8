#include "schedule/prepare_kernels.h"

#include <utility>

#include "base/bytes.h"
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

}  // namespace

void KernelCache::prepare(Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    const std::tuple key(step.node, step.replay, step.parts, adds_to_sums(graph_, step.node, step.part));
    if (!slots_.contains(key)) {
      kernels_.push_back(make_kernel(step, graph_, device_));
      slots_[key] = static_cast<int>(kernels_.size()) - 1;
    }
    step.slot = slots_.at(key);
    const std::size_t scratch = kernels_[static_cast<std::size_t>(step.slot)]->workspace_bytes();
    if (scratch == 0) continue;
    SF_CHECK(scratch <= std::size_t{1} << 62, InternalError, graph_.graph().node(step.node).label(),
             ": its kernel wants ", scratch, " bytes of workspace");
    step.workspace = {Operand::Kind::buffer, static_cast<int>(schedule.buffers.size())};
    const auto now = static_cast<StepIndex>(i);
    schedule.buffers.push_back({.value = {},
                                .bytes = round_up(scratch, kScratchGuardBytes) + kScratchGuardBytes,
                                .life = {now, now},
                                .fixed_offset = {}});
  }
}

}  // namespace sectionflow

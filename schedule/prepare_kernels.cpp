#include "schedule/prepare_kernels.h"

#include "base/bytes.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::unique_ptr<Kernel> make_kernel(const Step& step, const ConcreteGraph& graph, Device& device) {
  const Node& node = graph.graph().node(step.node);
  KernelRequest request{.node = node,
                        .inputs = {},
                        .outputs = graph.types(step.node),
                        .host_booleans = graph.booleans(step.node),
                        .replay = step.replay,
                        .device = device};
  for (const Value& input : node.inputs()) request.inputs.push_back(graph.type(input));
  return kernel_registry(device.kind()).make(request);
}

}  // namespace

void KernelCache::prepare(Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    const auto found = slots_.find({step.node, step.replay});
    if (found == slots_.end()) {
      kernels_.push_back(make_kernel(step, graph_, device_));
      slots_[{step.node, step.replay}] = static_cast<int>(kernels_.size()) - 1;
    }
    step.slot = slots_.at({step.node, step.replay});
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

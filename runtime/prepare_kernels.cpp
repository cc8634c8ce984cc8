#include "runtime/prepare_kernels.h"

#include <map>
#include <utility>

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

std::vector<std::unique_ptr<Kernel>> prepare_kernels(Schedule& schedule, const ConcreteGraph& graph, Device& device) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  std::map<std::pair<NodeId, bool>, int> made;
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    Step& step = schedule.steps[i];
    if (step.kind != StepKind::compute) continue;
    const auto [entry, is_new] = made.emplace(std::pair(step.node, step.replay), static_cast<int>(kernels.size()));
    if (is_new) kernels.push_back(make_kernel(step, graph, device));
    step.slot = entry->second;
    const std::size_t scratch = kernels[static_cast<std::size_t>(step.slot)]->workspace_bytes();
    if (scratch == 0) continue;
    step.workspace = {Operand::Kind::buffer, static_cast<int>(schedule.buffers.size())};
    const auto now = static_cast<StepIndex>(i);
    schedule.buffers.push_back({.value = {},
                                .bytes = round_up(scratch, kScratchGuardBytes) + kScratchGuardBytes,
                                .life = {now, now},
                                .fixed_offset = {}});
  }
  return kernels;
}

}  // namespace sectionflow

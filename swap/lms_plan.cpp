#include "swap/lms_plan.h"

#include <algorithm>

namespace sectionflow {
namespace {

/// So many levels are searched for a control operation.
constexpr int kSearchedLevels = 10;

}  // namespace

NodeSet far_destinations(const LmsGraph& graph, const LmsLevels& levels, Value tensor, int threshold) {
  const NodeId source = tensor.node().id();
  if (!graph.may_be_source(source) || tensor.shape().rank() <= 1) return {};
  NodeSet found;
  for (NodeId reader : graph.consumers(source, tensor.output())) {
    if (levels.distance(source, reader) > threshold && graph.may_be_destination(reader)) found.push_back(reader);
  }
  std::stable_sort(found.begin(), found.end(), [&](NodeId a, NodeId b) { return levels.of(a) < levels.of(b); });
  return found;
}

std::vector<SwapGroup> grouped(const LmsLevels& levels, const NodeSet& destinations, int groupby) {
  std::vector<SwapGroup> groups;
  for (NodeId id : destinations) {
    const bool joins =
        groupby > 0 && !groups.empty() && levels.of(id) - levels.of(groups.back().destinations.back()) <= groupby;
    if (!joins) groups.emplace_back();
    groups.back().destinations.push_back(id);
  }
  return groups;
}

std::vector<SwapTensor> swap_tensors(const LmsGraph& graph, const LmsLevels& levels, const LmsParameters& parameters) {
  std::vector<SwapTensor> tensors;
  const int groupby = parameters.syncs_in() ? 0 : parameters.groupby;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    Node& node = graph.graph().node(id);
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      const Value tensor = node.output(output);
      const NodeSet far = far_destinations(graph, levels, tensor, parameters.threshold);
      if (!far.empty()) tensors.push_back({tensor, grouped(levels, far, groupby)});
    }
  }
  return tensors;
}

std::optional<NodeId> find_trigger(const LmsGraph& graph, const LmsLevels& levels, NodeId source, NodeId destination,
                                   int ahead) {
  const int highest = levels.of(destination) - ahead - 1;
  const int lowest = std::max(levels.of(source) + 1, highest - kSearchedLevels + 1);
  if (highest < lowest) return std::nullopt;
  // Levels fall along data: what lies below the lowest level need not be looked at.
  std::vector<bool> seen(static_cast<std::size_t>(graph.num_nodes()), false);
  std::vector<NodeId> pending = {destination};
  std::optional<NodeId> best;
  const auto is_better = [&](NodeId id) {
    if (!best) return true;
    const int level = levels.of(id), best_level = levels.of(*best);
    return level > best_level || (level == best_level && id < *best);
  };
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    for (NodeId before : graph.fan_in(id)) {
      const int level = levels.of(before);
      if (level < lowest || seen[static_cast<std::size_t>(before)]) continue;
      seen[static_cast<std::size_t>(before)] = true;
      pending.push_back(before);
      const bool qualifies =
          level <= highest && graph.is_valid(before) && graph.is_gpu(before) && !graph.follows_update(before);
      if (qualifies && is_better(before)) best = before;
    }
  }
  return best;
}

}  // namespace sectionflow

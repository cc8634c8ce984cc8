#include "swap/estimate.h"

#include <vector>

#include "graph/graph.h"

namespace sectionflow {

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

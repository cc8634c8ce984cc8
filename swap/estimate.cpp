#include "swap/estimate.h"

#include <cmath>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sectionflow {
namespace {

double elements(const TensorType& type) {
  return static_cast<double>(type.shape.num_elements());
}

bool starts_with(const std::string& text, const char* start) {
  return text.rfind(start, 0) == 0;
}

/// Two operations for each product: every element of the map meets the whole filter but for one dimension.
double convolution_flops(const std::string& op, const std::vector<TensorType>& inputs, const TensorType& output) {
  if (inputs.size() < 2) return 0;
  const bool filter_gradient = op.find("backward_filter") != std::string::npos;
  const bool input_gradient = op.find("backward_input") != std::string::npos;
  const bool reads_map = filter_gradient || input_gradient || starts_with(op, "conv_transpose");
  const TensorType& filter = filter_gradient ? output : inputs[1];
  const TensorType& map = reads_map ? inputs[0] : output;
  if (filter.shape.rank() == 0) return 0;
  return 2 * elements(map) * elements(filter) / static_cast<double>(std::max<std::int64_t>(1, filter.shape[-1]));
}

/// |A| |B| |C| of a product of [m, k] and [k, n] is the square of m k n.
double product_flops(const std::vector<TensorType>& inputs, const TensorType& output) {
  if (inputs.size() < 2) return 0;
  double batch = 1;
  if (inputs[0].shape.rank() > 2 && inputs[1].shape.rank() > 2) {
    for (int axis = 0; axis + 2 < output.shape.rank(); ++axis) batch *= static_cast<double>(output.shape[axis]);
  }
  return 2 * std::sqrt(elements(inputs[0]) * elements(inputs[1]) * elements(output) / std::max(1.0, batch));
}

/// Two products of queries and keys, and three more where the gradient computes them again.
double attention_flops(const std::string& op, const std::vector<TensorType>& inputs) {
  const bool gradient = op != "attention";
  if (inputs.size() < 3 || inputs[gradient ? 2 : 1].shape.rank() < 2) return 0;
  const auto keys = static_cast<double>(inputs[gradient ? 2 : 1].shape[-2]);
  return (gradient ? 10 : 4) * elements(inputs[0]) * keys;
}

}  // namespace

Work work_of(const ConcreteGraph& graph, NodeId id) {
  Work work;
  const Node& node = graph.graph().node(id);
  std::vector<TensorType> inputs;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    inputs.push_back(graph.type(node.inputs()[i]));
    if (graph.uses(id)[i] == InputUse::data) work.bytes += static_cast<double>(inputs.back().bytes());
  }
  for (const TensorType& output : graph.types(id)) work.bytes += static_cast<double>(output.bytes());
  const std::string& op = node.op().name;
  if (graph.types(id).empty()) return work;
  if (starts_with(op, "conv")) work.flops = convolution_flops(op, inputs, graph.types(id)[0]);
  if (starts_with(op, "matmul")) work.flops = product_flops(inputs, graph.types(id)[0]);
  if (starts_with(op, "attention")) work.flops = attention_flops(op, inputs);
  return work;
}

}  // namespace sectionflow

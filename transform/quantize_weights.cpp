// Constants of f32 become integers of 8 bits, of which numbers are made again where they are read: files are a quarter
// as large, the arithmetic stays that of f32.

#include <map>
#include <set>
#include <utility>

#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/ops/quantize.h"
#include "transform/graph_copy.h"
#include "transform/quantized_weights.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

/// Constants with fewer elements are not worth the scales and the error.
constexpr std::int64_t kLeastElements = 1024;

/// The constants that are changed, each with the axis of its channels: that of the reader that was made first.
std::map<const Node*, int> weights_by_axis(const Graph& graph, std::int64_t least_elements) {
  std::map<const Node*, int> weights;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& reader = graph.node(id);
    for (std::size_t i = 0; i < reader.inputs().size(); ++i) {
      const Value& value = reader.inputs()[i];
      if (value.dtype() != Dtype::f32 || value.shape().rank() < 2 || constant_content(value) == nullptr) continue;
      if (value.shape().num_elements() < least_elements) continue;
      weights.emplace(&value.node(), channel_axis(reader, i));
    }
  }
  return weights;
}

void make_integers(const Node& node, const QuantizedWeights& weights, const Graph& graph, GraphCopy& copy) {
  const Value integers = copy.add_constant(node, weights.integers, copy.free_name(node.name() + "/integers"));
  const Value scales = copy.add_constant(node, weights.scales, copy.free_name(node.name() + "/scales"));
  const QuantizeOptions options{.axis = weights.axis};
  const Value numbers = copy.add(node, "dequantize", {integers, scales}, options, node.name()).output();
  copy.map(graph.node(node.id()).output(), numbers);
}

}  // namespace

Transform quantize_weights_transform() {
  return {.parameters = {{.name = "min_elements", .kind = TransformParameter::Kind::number}},
          .apply = [](const TransformedGraph& given, const TransformArguments& arguments) {
            const auto weights = weights_by_axis(given.graph, arguments.number("min_elements", kLeastElements));
            GraphCopy copy(given);
            copy.copy_all([&](const Node& node, GraphCopy& made) {
              const auto found = weights.find(&node);
              if (found == weights.end()) return false;
              const auto integers =
                  quantized_weights(*constant_content(given.graph.node(node.id()).output()), found->second);
              if (integers) make_integers(node, *integers, given.graph, made);
              return integers.has_value();
            });
            return copy.finish(given.outputs);
          }};
}

}  // namespace sectionflow

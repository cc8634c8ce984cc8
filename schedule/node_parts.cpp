#include "schedule/node_parts.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace sectionflow {

std::optional<NodeParts> parts_of_node(const ConcreteGraph& graph, NodeId id) {
  const Node& node = graph.graph().node(id);
  if (!node.op().parts) return std::nullopt;
  const std::vector<TensorType> inputs = graph.input_types(id);
  const std::vector<TensorType>& outputs = graph.types(id);
  std::optional<RowParts> uses = node.op().parts({inputs, outputs, graph.booleans(id), node.any_options()});
  if (!uses) return std::nullopt;
  SF_CHECK(uses->inputs.size() == inputs.size() && uses->outputs.size() == outputs.size() && uses->block > 0,
           InternalError, node.label(), ": its parts are not of ", inputs.size(), " inputs and ", outputs.size(),
           " outputs");
  std::int64_t rows = -1;
  const auto has_rows = [&](const TensorType& type) {
    const bool fits = type.shape.rank() > 0 && (rows < 0 || type.shape[0] == rows);
    if (fits) rows = type.shape[0];
    return fits;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graph.uses(id)[i] != InputUse::data) uses->inputs[i] = PartUse::whole;
    if (uses->inputs[i] == PartUse::rows && !has_rows(inputs[i])) return std::nullopt;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (uses->outputs[i] == PartUse::rows && !has_rows(outputs[i])) return std::nullopt;
  }
  if (rows <= 0) return std::nullopt;
  return NodeParts{*std::move(uses), rows};
}

bool adds_to_sums(const ConcreteGraph& graph, NodeId id, int part) {
  if (part == 0) return false;
  const std::vector<PartUse> outputs = parts_of_node(graph, id).value().uses.outputs;
  return std::find(outputs.begin(), outputs.end(), PartUse::sum) != outputs.end();
}

std::string type_text(const Buffer& buffer, const ConcreteGraph& graph) {
  const TensorType& type = graph.type(buffer.value);
  return buffer.parts == 1 ? type.text()
                           : text_of(type_of_part(type, buffer.parts).text(), ", one of ", buffer.parts, " parts");
}

std::string label_of(const Step& step, const Graph& graph) {
  const std::string label = graph.node(step.node).label();
  return step.parts > 1 ? text_of("part ", step.part + 1, " of ", step.parts, " of ", label) : label;
}

}  // namespace sectionflow

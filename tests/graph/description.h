#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "tests/support/contains.h"

namespace sectionflow::testing_support {

/// One line a node with all that a cut into groups must not change: number, op, name, ordinal, inputs, control inputs.
inline std::vector<std::string> description(const Graph& graph) {
  std::vector<std::string> lines;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    std::string line = text_of(node.id(), " ", node.label(), " random ", node.random_ordinal(), " <-");
    for (const Value& input : node.inputs()) line += text_of(" ", input.name());
    for (const Node* before : node.control_inputs()) line += text_of(" ^", before->name());
    lines.push_back(line);
  }
  return lines;
}

}  // namespace sectionflow::testing_support

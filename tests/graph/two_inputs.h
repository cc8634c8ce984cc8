#pragma once

#include "graph/ops/basic.h"
#include "graph/shared_variables.h"

namespace sectionflow {

/// Two inputs of one width, and variables to be shared by what is made of them.
struct TwoInputs {
  Graph graph;
  Value x = placeholder(graph, "x", {3, 5}), z = placeholder(graph, "z", {7, 5});
  SharedVariables shared{graph, "encoder"};
};

}  // namespace sectionflow

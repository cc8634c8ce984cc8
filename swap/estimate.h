#pragma once

#include "schedule/concrete_graph.h"

namespace sectionflow {

/// Arithmetic and memory traffic of one execution of a node, from its types.
struct Work {
  double flops = 0;  ///< OpDef::flops; 0 for what merely streams
  double bytes = 0;  ///< read and written
};
Work work_of(const ConcreteGraph& graph, NodeId id);

}  // namespace sectionflow

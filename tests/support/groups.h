#pragma once

#include "graph/graph.h"

namespace sectionflow::testing_support {

/// A new group, to which belongs what `build` adds.
template <class Build>
GroupId in_new_group(Graph& graph, const Build& build) {
  const GroupId group = graph.new_group();
  const auto entered = graph.enter_group(group);
  build();
  return group;
}

}  // namespace sectionflow::testing_support

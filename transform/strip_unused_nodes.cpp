// What the outputs do not need goes.

#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {

Transform strip_unused_nodes_transform() {
  return {.checks_needed_alone = true, .apply = [](const TransformedGraph& given, const TransformArguments&) {
            const std::vector<bool> needed = needed_nodes(given.graph, given.outputs);
            GraphCopy copy(given);
            copy.copy_all({}, &needed);
            return copy.finish(given.outputs);
          }};
}

}  // namespace sectionflow

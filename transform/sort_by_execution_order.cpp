// Each operation stands behind all that it waits for, control and order edges and replaced inputs included, and
// constants just before their first readers: the order in which a run executes them.

#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {

Transform sort_by_execution_order_transform() {
  return {.apply = [](const TransformedGraph& given, const TransformArguments&) {
    GraphCopy copy(given);
    copy.copy_all({});
    return copy.finish(given.outputs);
  }};
}

}  // namespace sectionflow

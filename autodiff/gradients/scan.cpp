#include "graph/ops/scan.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/scan.h"

namespace sectionflow {

// An element is part of the sums from its place on, so that its gradient is the sum of theirs, from the other end.
void add_scan_gradients(GradientRegistry& registry) {
  registry.add("cumsum", [](const GradientRequest& r) {
    CumsumNodeOptions options = r.node.options<CumsumNodeOptions>();
    options.sums.reverse = !options.sums.reverse;
    return std::vector{cumsum(r.dy(), options.axis, options.sums, {})};
  });
}

}  // namespace sectionflow

#include "graph/ops/identities.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

void add_identities_gradients(GradientRegistry& registry) {
  registry.add_zero("stop_gradient");
  registry.add("print", [](const GradientRequest& r) { return std::vector{r.dy()}; });
  // A graph with swaps is complete: gradients would read from the device what is no longer there.
  for (const char* op : {"swap_out", "swap_in"}) {
    registry.add_refused(op, "swaps are put into a graph that is complete",
                         "call gradients() and minimize() before swap_out() and Lms::run()");
  }
}

}  // namespace sectionflow

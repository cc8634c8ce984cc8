#include "graph/ops/swap.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// A graph with swaps is complete: gradients would read from the device what is no longer there.
void add_swap_gradients(GradientRegistry& registry) {
  for (const char* op : {"swap_out", "swap_in"}) {
    registry.add_refused(op, "swaps are put into a graph that is complete",
                         "call gradients() and minimize() before swap_out() and Lms::run()");
  }
}

}  // namespace sectionflow

#include "graph/ops/swap.h"

#include "autodiff/gradient_registry.h"
#include "base/error.h"

namespace sectionflow {
namespace {

// A graph with swaps is complete: gradients would read from the device what is no longer there.
std::vector<Value> refuse(const GradientRequest& request) {
  throw ArgumentError(error_text_of("gradients through ", request.node.label(),
                                    ": swaps are put into a graph that is complete",
                                    hint("call gradients() and minimize() before swap_out() and Lms::run()")));
}

}  // namespace

void add_swap_gradients(GradientRegistry& registry) {
  registry.add("swap_out", refuse);
  registry.add("swap_in", refuse);
}

}  // namespace sectionflow

#include "graph/ops/ctc_loss.h"

#include "autodiff/gradient_registry.h"
#include "autodiff/normalization.h"

namespace sectionflow {

void add_ctc_loss_gradients(GradientRegistry& registry) {
  registry.add("ctc_loss", [](const GradientRequest& r) {
    check_no_loss_of_statistics(r);
    const Value dlogits = ctc_loss_grad(r.dy(), r.node.output(1), r.input(0), r.input(1), r.input(2), r.input(3),
                                        r.node.options<CtcLossOptions>());
    return std::vector{dlogits, Value(), Value(), Value()};
  });
  registry.add_refused("ctc_loss_grad", "the gradient of a sum over all ways to spread labels has no rule",
                       "take second derivatives of other losses alone");
}

}  // namespace sectionflow

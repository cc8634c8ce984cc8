#include "graph/ops/clip.h"

#include "autodiff/gradient_registry.h"

namespace sectionflow {

// From the input: an output at a bound does not tell whether the input was beyond it.
void add_clip_gradients(GradientRegistry& registry) {
  registry.add("clip", [](const GradientRequest& r) {
    return std::vector{clip_grad(r.dy(), r.input(0), r.node.options<ClipOptions>())};
  });
  registry.add("clip_grad",
               [](const GradientRequest& r) {
                 return std::vector{clip_grad(r.dy(), r.input(1), r.node.options<ClipOptions>()), Value()};
               },
               {.zero_inputs = {1}});
}

}  // namespace sectionflow

#include "graph/ops/select.h"

#include "autodiff/gradient_registry.h"
#include "autodiff/like_input.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

// Reads a byte an element beside dy, and may lie over dy.
std::vector<Value> select_gradient(const GradientRequest& r) {
  const Value condition = r.input(0);
  const Value zero = constant(r.node.graph(), HostTensor(r.dy().dtype(), {}));
  return {Value(), r.wanted[1] ? like_input(select(condition, r.dy(), zero), r.input(1)) : Value(),
          r.wanted[2] ? like_input(select(condition, zero, r.dy()), r.input(2)) : Value()};
}

}  // namespace

void add_select_gradients(GradientRegistry& registry) {
  registry.add("select", select_gradient);
}

}  // namespace sectionflow

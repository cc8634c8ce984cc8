#include "graph/ops/scatter.h"

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/indexing.h"
#include "graph/nodes/scatter.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

std::vector<Value> added_gradient(const GradientRequest& r) {
  return {r.wanted[0] ? r.dy() : Value(), Value(), r.wanted[2] ? gather_present(r.dy(), r.input(1)) : Value()};
}

/// 1 for each element that is the largest of its place; 0 where it is not, and for all of a place with a NaN.
Value chosen_ones(Value x, Value largest) {
  return select(equal(x, largest), full_like(x, 1), full_like(x, 0));
}

// Who is the largest changes in steps: its share of dy is one by the number of those that are.
std::vector<Value> largest_gradient(const GradientRequest& r) {
  const Value x = r.input(0), indices = r.input(1), updates = r.input(2), y = r.node.output();
  const Value of_x = chosen_ones(x, y), of_updates = chosen_ones(updates, gather_present(y, indices));
  const Value count = scatter_add(of_x, indices, of_updates, {});
  const Value share = r.dy() / maximum(count, full_like(count, 1), {});
  return {r.wanted[0] ? of_x * share : Value(), Value(),
          r.wanted[2] ? of_updates * gather_present(share, indices) : Value()};
}

}  // namespace

void add_scatter_gradients(GradientRegistry& registry) {
  registry.add("scatter", [](const GradientRequest& r) {
    return r.node.options<ScatterOptions>().scattering == Scattering::add ? added_gradient(r) : largest_gradient(r);
  });
}

}  // namespace sectionflow

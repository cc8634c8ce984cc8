#include "graph/ops/control.h"

#include "autodiff/gradient_registry.h"
#include "graph/nodes/control.h"
#include "graph/nodes/layout.h"
#include "graph/op_def.h"

namespace sectionflow {
namespace {

/// The gradient of an input that is read where the last input, the flag, is `when`. Of a value of that branch it is
/// asked for there alone; one that stands outside has it in every run.
Value entering(const GradientRequest& r, int input, bool when) {
  const Value value = r.input(input), flag = r.node.inputs().back();
  if (!r.wanted[static_cast<std::size_t>(input)]) return {};
  const bool is_outside = r.node.branch().is_within(value.node().branch());
  if (is_outside) return leave_branch(r.dy(), value, flag, when);
  if (r.dy().type() == value.type()) return r.dy();
  // The other branch knows sizes that this one leaves to feeds: rules of operations here would not join both.
  const auto inside = value.graph().enter_branch(value.node().branch());
  return reshape_like(r.dy(), value);
}

}  // namespace

void add_control_gradients(GradientRegistry& registry) {
  registry.add_zero("choice");
  registry.add("branch_value", [](const GradientRequest& r) { return std::vector{r.dy()}; });
  registry.add("merge_branches", [](const GradientRequest& r) {
    return std::vector{entering(r, 0, true), entering(r, 1, false), Value()};
  });
  registry.add("leave_then", [](const GradientRequest& r) {
    return std::vector{entering(r, 0, true), Value(), Value()};
  });
  registry.add("leave_otherwise", [](const GradientRequest& r) {
    return std::vector{entering(r, 0, false), Value(), Value()};
  });
  // Of what it shows none passes: inputs from 2 on, of which there are 8 at most.
  registry.add("assert_that", [](const GradientRequest& r) { return std::vector{r.dy()}; },
               {.zero_inputs = {2, 3, 4, 5, 6, 7, 8, 9}});
}

}  // namespace sectionflow

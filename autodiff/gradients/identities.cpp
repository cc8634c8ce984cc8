#include "graph/ops/identities.h"

#include <algorithm>

#include "autodiff/compose.h"
#include "autodiff/gradient_registry.h"
#include "graph/nodes/identities.h"
#include "graph/op_def.h"

namespace sectionflow {

namespace {

/// Throws: ArgumentError unless the user's function has given what was asked for.
void check_backward(const GradientRequest& r, const std::vector<Value>& given) {
  const std::size_t count = r.node.inputs().size() - 1;
  const auto& name = r.node.label();
  SF_CHECK(given.size() == count, ArgumentError, name, ": backward gave ", given.size(), " gradients for ", count,
           count == 1 ? " input" : " inputs", hint("one value an input, an empty one where it is zero"));
  for (std::size_t i = 0; i < count; ++i) {
    const Value input = r.node.inputs()[i + 1];
    if (!given[i].valid() || !r.wanted[i + 1]) continue;
    SF_CHECK(&given[i].graph() == &r.node.graph(), ArgumentError, name, ": backward gave '", given[i].name(),
             "' of another graph for input ", i, ", '", input.name(), "'");
    SF_CHECK(may_agree(given[i].type(), input.type()), ShapeError, name, ": backward gave ", given[i].type().text(),
             " for input ", i, ", '", input.name(), "'; wanted it like that, ", input.type().text());
  }
}

std::vector<Value> custom_gradient_rule(const GradientRequest& r) {
  const auto& backward = r.node.options<CustomGradientOptions>().backward;
  SF_CHECK_CODE(backward != nullptr, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                ": the graph came from a file, which does not keep functions",
                hint("make gradients before save_graph, or build the graph by your program"));
  const std::vector<Value>& all = r.node.inputs();
  const std::size_t num_trained = r.node.graph().values(kTrainableVariables).size();
  const std::vector<Value> given = (*backward)({.dy = r.dy(),
                                                .inputs = {all.begin() + 1, all.end()},
                                                .y = r.node.output(),
                                                .wanted = {r.wanted.begin() + 1, r.wanted.end()}});
  SF_CHECK(r.node.graph().values(kTrainableVariables).size() == num_trained, ArgumentError, r.node.label(),
           ": backward made a variable that is to be trained; wanted none",
           hint("make it before, and give it as an input"));
  check_backward(r, given);
  std::vector<Value> gradients = {Value()};
  for (std::size_t i = 0; i < given.size(); ++i) {
    const bool is_zero = r.wanted[i + 1] && !given[i].valid();
    gradients.push_back(is_zero ? full_like(all[i + 1], 0) : given[i]);
  }
  return gradients;
}

}  // namespace

void add_identities_gradients(GradientRegistry& registry) {
  registry.add("custom_gradient", custom_gradient_rule, {.zero_inputs = {0}});
  registry.add_zero("stop_gradient");
  registry.add("print", [](const GradientRequest& r) { return std::vector{r.dy()}; });
  // A graph with swaps is complete: gradients would read from the device what is no longer there.
  for (const char* op : {"swap_out", "swap_in"}) {
    registry.add_refused(op, "swaps are put into a graph that is complete",
                         "call gradients() and minimize() before swap_out() and Lms::run()");
  }
}

}  // namespace sectionflow

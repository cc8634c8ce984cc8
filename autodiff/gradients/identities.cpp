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

/// Throws: ArgumentError where `backward` takes gradients that come by this node again.
std::vector<Value> asked(const GradientRequest& r, CustomGradientOptions::Backward& backward,
                         const BackwardRequest& request) {
  SF_CHECK(!backward.is_asked, ArgumentError, r.node.label(),
           ": backward takes gradients of what depends on this very node, and would be asked again",
           hint("dy depends on y: take gradients of products with stop_gradient(dy)"));
  struct Asking {
    explicit Asking(bool& flag) : is_asked(flag) { is_asked = true; }
    ~Asking() { is_asked = false; }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    bool& is_asked;
  };
  const Asking asking(backward.is_asked);
  return backward.function(request);
}

/// The gradient, whose unknown sizes, and those of its input, are held to each other.
Value held_to_input(const GradientRequest& r, Value gradient, Value input) {
  for (int axis = 0; axis < input.shape().rank(); ++axis) {
    if (gradient.shape()[axis] == input.shape()[axis] && input.shape()[axis] != kDynamic) continue;
    gradient = same_size(gradient, input,
                         {.axis = axis,
                          .like_axis = axis,
                          .what = text_of(r.node.label(), ": dimension ", axis,
                                          " of the gradient that backward gave and of '", input.name(), "'")});
  }
  return gradient;
}

std::vector<Value> custom_gradient_rule(const GradientRequest& r) {
  const auto& backward = r.node.options<CustomGradientOptions>().backward;
  SF_CHECK_CODE(backward != nullptr, ArgumentError, ErrorCode::no_gradient_rule, r.node.label(),
                ": the graph came from a file, which does not keep functions",
                hint("make gradients before save_graph, or build the graph by your program"));
  const std::vector<Value>& all = r.node.inputs();
  const std::size_t num_trained = r.node.graph().values(kTrainableVariables).size();
  const std::vector<Value> given = asked(r, *backward,
                                         {.dy = r.dy(),
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
    const bool is_given = r.wanted[i + 1] && given[i].valid();
    gradients.push_back(is_zero    ? full_like(all[i + 1], 0)
                        : is_given ? held_to_input(r, given[i], all[i + 1])
                                   : Value());
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

#include "autodiff/custom_gradient.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "autodiff/gradient_path.h"
#include "autodiff/gradient_registry.h"
#include "base/error.h"
#include "graph/nodes/identities.h"
#include "graph/op_def.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Whether gradients could be wanted of what was there before: not of constants, nor of what has lost them already.
bool may_be_trained(const Value& value, const GradientRegistry& registry) {
  const Node& node = value.node();
  const GradientEntry* entry = registry.find(node.op().name);
  return !node.op().is_constant() && (node.op().is_given() || entry == nullptr || !entry->is_zero());
}

/// Throws: ArgumentError where a gradient would be lost between `y` and the nodes that were there before `first`.
void check_captured(const std::vector<Value>& inputs, Value y, NodeId first) {
  const GradientRegistry& registry = gradient_registry();
  std::vector<const Node*> open = {&y.node()};
  std::vector<bool> seen(static_cast<std::size_t>(y.graph().num_nodes()), false);
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(node.id())]) continue;
    seen[static_cast<std::size_t>(node.id())] = true;
    SF_CHECK(!node.op().is_variable(), ArgumentError, "custom_gradient: forward makes the variable '", node.name(),
             "'; wanted none, since it would have no gradient", hint("make it before, and give it as an input"));
    const GradientEntry* entry = registry.find(node.op().name);
    if (entry != nullptr && entry->is_zero()) continue;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const Value& input = node.inputs()[i];
      if (!carries_gradient(registry, node, i) || std::ranges::find(inputs, input) != inputs.end()) continue;
      const bool is_before = input.node().id() < first;
      SF_CHECK(!is_before || !may_be_trained(input, registry), ArgumentError, "custom_gradient: forward reads '",
               input.name(), "' in ", node.label(), ", which is no input; wanted all that it reads among the inputs",
               hint("or stop_gradient('", input.name(), "'), where it counts as constant"));
      if (!is_before) open.push_back(&input.node());
    }
  }
}

}  // namespace

Value custom_gradient(const std::vector<Value>& inputs,
                      const std::function<Value(const std::vector<Value>& inputs)>& forward, BackwardFunction backward,
                      Where where) {
  SF_CHECK(!inputs.empty() && inputs.front().valid(), ArgumentError,
           "custom_gradient: no inputs; wanted what forward computes from");
  SF_CHECK(forward && backward, ArgumentError, "custom_gradient: ", forward ? "backward" : "forward",
           " is no function; wanted both");
  Graph& graph = inputs.front().graph();
  return graph.build_at(where, inputs, [&] {
    const NodeId first = graph.num_nodes();
    const Value y = forward(inputs);
    SF_CHECK(y.valid() && &y.graph() == &graph, ArgumentError, "custom_gradient: forward gave ",
             y.valid() ? "a value of another graph" : "no value", "; wanted one of the inputs' graph");
    SF_CHECK(is_f32_or_bf16(y.dtype()), ArgumentError, "custom_gradient: forward gave '", y.name(), "', ",
             y.type().text(), "; wanted f32 or bf16");
    SF_CHECK(y.node().id() >= first, ArgumentError, "custom_gradient: forward gave '", y.name(),
             "', which was there before; wanted something that it computes",
             hint("stop_gradient(x) is x, without a copy"));
    check_captured(inputs, y, first);
    std::vector<Value> all = {y};
    all.insert(all.end(), inputs.begin(), inputs.end());
    return graph
        .add_node("custom_gradient", std::move(all),
                  CustomGradientOptions{std::make_shared<CustomGradientOptions::Backward>(
                      CustomGradientOptions::Backward{std::move(backward)})},
                  "custom_gradient")
        .output();
  });
}

}  // namespace sectionflow

#include "autodiff/optimizers.h"

#include <set>

#include "graph/ops/basic.h"
#include "graph/ops/update.h"

namespace sectionflow {
namespace {

Value as_value(Graph& graph, const ScalarOrValue& scalar) {
  if (const auto* number = std::get_if<float>(&scalar)) return constant(graph, *number, "learning_rate");
  return std::get<Value>(scalar);
}

/// A slot `<variable>/<slot>`, whatever scope is open.
Value zero_slot(Value variable, std::string_view slot) {
  const std::string name = text_of("/", variable.name(), "/", slot);
  const Value zeros = fill(variable.graph(), variable.shape(), 0.0, variable.dtype(), text_of(name, "/initial_value"));
  return sectionflow::variable(name, zeros, {.trainable = false});
}

void check_learning_rate(const ScalarOrValue& scalar, const Graph& graph) {
  const auto* value = std::get_if<Value>(&scalar);
  SF_CHECK(value == nullptr || value->type() == (TensorType{Dtype::f32, {}}), ShapeError,
           "apply_gradients: learning_rate '", value->name(), "' is ", value->type().text(), "; wanted f32[]");
  SF_CHECK(value == nullptr || &value->graph() == &graph, ArgumentError, "apply_gradients: learning_rate '",
           value->name(), "' belongs to another graph");
}

void check_pairs(const std::vector<GradientAndVariable>& pairs) {
  SF_CHECK(!pairs.empty(), ArgumentError, "apply_gradients got no gradients; wanted a variable to train at least");
  std::set<Value> seen;
  for (const auto& [gradient, variable] : pairs) {
    SF_CHECK(variable.valid() && is_variable(variable), ArgumentError, "apply_gradients: '",
             variable.valid() ? variable.name() : "", "' is no variable");
    SF_CHECK(gradient.valid(), ArgumentError, "apply_gradients: variable '", variable.name(), "' has no gradient");
    SF_CHECK(&variable.graph() == &pairs.front().variable.graph() && &gradient.graph() == &variable.graph(),
             ArgumentError, "apply_gradients: variable '", variable.name(), "' and its gradient '", gradient.name(),
             "' belong to different graphs, or to another than the first variable");
    SF_CHECK(seen.insert(variable).second, ArgumentError, "apply_gradients: variable '", variable.name(),
             "' is named twice");
    SF_CHECK(matches(variable.shape(), gradient.shape()) && variable.dtype() == gradient.dtype(), ShapeError,
             "apply_gradients: variable '", variable.name(), "' is ", variable.type().text(), ", its gradient '",
             gradient.name(), "' ", gradient.type().text());
  }
}

/// Adds one operation a pair by `apply_one(pair)`.
template <class ApplyOne>
std::vector<Operation> apply_each(const std::vector<GradientAndVariable>& pairs, const ApplyOne& apply_one) {
  std::vector<Operation> operations;
  for (const GradientAndVariable& pair : pairs) {
    const auto group = pair.variable.graph().enter_group(pair.variable.node().group());
    operations.push_back(apply_one(pair));
  }
  return operations;
}

std::vector<Operation> apply(const Sgd& sgd, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  const Value learning_rate = as_value(graph, sgd.learning_rate);
  return apply_each(
      pairs, [&](const GradientAndVariable& pair) { return apply_sgd(pair.variable, pair.gradient, learning_rate); });
}

std::vector<Operation> apply(const Adam& adam, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  const Value learning_rate = as_value(graph, adam.learning_rate);
  const Value steps =
      variable("adam_steps", fill(graph, {}, 0, Dtype::i64, "adam_steps/initial_value"), {.trainable = false});
  const AdamOptions options{adam.beta1, adam.beta2, adam.epsilon};
  auto operations = apply_each(pairs, [&](const GradientAndVariable& pair) {
    const Value m = zero_slot(pair.variable, "adam_m");
    const Value v = zero_slot(pair.variable, "adam_v");
    return apply_adam(pair.variable, m, v, pair.gradient, learning_rate, steps, options);
  });
  operations.push_back(assign_add(steps, fill(graph, {}, 1, Dtype::i64, "one_step")));
  return operations;
}

}  // namespace

std::vector<GradientAndVariable> compute_gradients(Value loss, std::vector<Value> variables) {
  if (variables.empty()) variables = loss.graph().values(kTrainableVariables);
  SF_CHECK(!variables.empty(), ArgumentError, "compute_gradients of '", loss.name(),
           "': the graph has no trainable variable; make one with variable() or a layer");
  const std::vector<Value> gradient_values = gradients(loss, variables);
  std::vector<GradientAndVariable> pairs;
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.push_back({gradient_values[i], variables[i]});
  return pairs;
}

std::vector<Operation> apply_gradients(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients) {
  check_pairs(gradients);
  Graph& graph = gradients.front().variable.graph();
  std::visit([&](const auto& chosen) { check_learning_rate(chosen.learning_rate, graph); }, optimizer);
  return graph.all_or_nothing([&] {
    const auto phase = graph.enter_phase(Phase::training);
    const auto outside = graph.enter_group(kNoGroup);
    const auto operations = std::visit([&](const auto& chosen) { return apply(chosen, gradients, graph); }, optimizer);
    for (Operation operation : operations) graph.add_to_collection(kTrainingOperations, operation);
    return operations;
  });
}

std::vector<Operation> minimize(const Optimizer& optimizer, Value loss, std::vector<Value> variables) {
  return loss.graph().all_or_nothing(
      [&] { return apply_gradients(optimizer, compute_gradients(loss, std::move(variables))); });
}

}  // namespace sectionflow

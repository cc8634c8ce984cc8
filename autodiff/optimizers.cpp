#include "autodiff/optimizers.h"

#include <cmath>
#include <set>

#include "graph/nodes/reduce.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/reduce.h"
#include "graph/ops/update.h"

namespace sectionflow {
namespace {

Value as_value(Graph& graph, const ScalarOrValue& scalar) {
  if (scalar.number() != nullptr) return constant(graph, *scalar.number(), "learning_rate");
  return *scalar.value();
}

/// A slot `<variable>/<slot>`, whatever scope is open.
Value new_slot(Value variable, std::string_view slot, float content = 0) {
  const std::string name = text_of("/", variable.name(), "/", slot);
  const Value initial =
      fill(variable.graph(), variable.shape(), content, variable.dtype(), text_of(name, "/initial_value"));
  return sectionflow::variable(name, initial, {.trainable = false});
}

void check_learning_rate(const ScalarOrValue& scalar, const Graph& graph) {
  const float* number = scalar.number();
  SF_CHECK(number == nullptr || (std::isfinite(*number) && *number >= 0), ArgumentError,
           "apply_gradients: learning_rate is ", *number, "; wanted 0 or more");
  const Value* value = scalar.value();
  SF_CHECK(value == nullptr || value->type() == (TensorType{Dtype::f32, {}}), ShapeError,
           "apply_gradients: learning_rate '", value->name(), "' is ", value->type().text(), "; wanted f32[]");
  SF_CHECK(value == nullptr || &value->graph() == &graph, ArgumentError, "apply_gradients: learning_rate '",
           value->name(), "' belongs to another graph");
}

void check_pairs(const std::vector<GradientAndVariable>& pairs, std::string_view call) {
  SF_CHECK(!pairs.empty(), ArgumentError, call, " got no gradients; wanted a variable to train at least");
  std::set<Value> seen;
  for (const auto& [gradient, variable] : pairs) {
    SF_CHECK(variable.valid() && is_variable(variable), ArgumentError, call, ": '",
             variable.valid() ? variable.name() : "", "' is no variable");
    SF_CHECK(gradient.valid(), ArgumentError, call, ": variable '", variable.name(), "' has no gradient");
    SF_CHECK(&variable.graph() == &pairs.front().variable.graph() && &gradient.graph() == &variable.graph(),
             ArgumentError, call, ": variable '", variable.name(), "' and its gradient '", gradient.name(),
             "' belong to different graphs, or to another than the first variable");
    SF_CHECK(seen.insert(variable).second, ArgumentError, call, ": variable '", variable.name(), "' is named twice");
    SF_CHECK(matches(variable.shape(), gradient.shape()) && variable.dtype() == gradient.dtype(), ShapeError, call,
             ": variable '", variable.name(), "' is ", variable.type().text(), ", its gradient '", gradient.name(),
             "' ", gradient.type().text());
  }
}

MomentumOptions options_of(const Momentum& momentum) {
  return {momentum.momentum, momentum.nesterov};
}
AdagradOptions options_of(const Adagrad& adagrad) {
  return {adagrad.epsilon};
}
RmsPropOptions options_of(const RmsProp& rms_prop) {
  return {rms_prop.decay, rms_prop.epsilon};
}
AdamOptions options_of(const Adam& adam) {
  return {adam.beta1, adam.beta2, adam.epsilon};
}
AdamWOptions options_of(const AdamW& adam_w) {
  return {adam_w.beta1, adam_w.beta2, adam_w.epsilon, adam_w.weight_decay};
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

std::vector<Operation> apply(const Momentum& momentum, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  const Value learning_rate = as_value(graph, momentum.learning_rate);
  return apply_each(pairs, [&](const GradientAndVariable& pair) {
    const Value velocity = new_slot(pair.variable, "momentum");
    return apply_momentum(pair.variable, velocity, pair.gradient, learning_rate, options_of(momentum));
  });
}

std::vector<Operation> apply(const Adagrad& adagrad, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  const Value learning_rate = as_value(graph, adagrad.learning_rate);
  return apply_each(pairs, [&](const GradientAndVariable& pair) {
    const Value sum = new_slot(pair.variable, "adagrad_sum", adagrad.initial_sum);
    return apply_adagrad(pair.variable, sum, pair.gradient, learning_rate, options_of(adagrad));
  });
}

std::vector<Operation> apply(const RmsProp& rms_prop, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  const Value learning_rate = as_value(graph, rms_prop.learning_rate);
  return apply_each(pairs, [&](const GradientAndVariable& pair) {
    const Value average = new_slot(pair.variable, "rms_prop_average");
    return apply_rms_prop(pair.variable, average, pair.gradient, learning_rate, options_of(rms_prop));
  });
}

/// `apply_one(variable, m, v, gradient, learning_rate, steps)` a pair, with slots called `<name>_...`.
template <class ApplyOne>
std::vector<Operation> apply_with_moments(const std::string& name, const ScalarOrValue& rate,
                                          const std::vector<GradientAndVariable>& pairs, Graph& graph,
                                          const ApplyOne& apply_one) {
  const Value learning_rate = as_value(graph, rate);
  const std::string counter = name + "_steps";
  const Value steps =
      variable(counter, fill(graph, {}, 0, Dtype::i64, text_of(counter, "/initial_value")), {.trainable = false});
  auto operations = apply_each(pairs, [&](const GradientAndVariable& pair) {
    const Value m = new_slot(pair.variable, name + "_m");
    const Value v = new_slot(pair.variable, name + "_v");
    return apply_one(pair.variable, m, v, pair.gradient, learning_rate, steps);
  });
  operations.push_back(assign_add(steps, fill(graph, {}, 1, Dtype::i64, "one_step")));
  return operations;
}

std::vector<Operation> apply(const Adam& adam, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  return apply_with_moments("adam", adam.learning_rate, pairs, graph,
                            [&](auto... inputs) { return apply_adam(inputs..., options_of(adam)); });
}

std::vector<Operation> apply(const AdamW& adam_w, const std::vector<GradientAndVariable>& pairs, Graph& graph) {
  return apply_with_moments("adam_w", adam_w.learning_rate, pairs, graph,
                            [&](auto... inputs) { return apply_adam_w(inputs..., options_of(adam_w)); });
}

void check_numbers(const Sgd&, const std::string&) {}
void check_numbers(const Adagrad& adagrad, const std::string& label) {
  check_options(options_of(adagrad), label);
  SF_CHECK(adagrad.initial_sum >= 0, ArgumentError, label, ": initial_sum is ", adagrad.initial_sum,
           "; wanted 0 or more");
}
template <class Chosen>
void check_numbers(const Chosen& optimizer, const std::string& label) {
  check_options(options_of(optimizer), label);
}

}  // namespace

std::vector<GradientAndVariable> compute_gradients(Value loss, std::vector<Value> variables, Where where) {
  return call_at(where, [&] {
    if (variables.empty()) variables = loss.graph().values(kTrainableVariables);
    SF_CHECK(!variables.empty(), ArgumentError, "compute_gradients of '", loss.name(),
             "': the graph has no trainable variable; make one with variable() or a layer");
    const std::vector<Value> gradient_values = gradients(loss, variables);
    std::vector<GradientAndVariable> pairs;
    for (std::size_t i = 0; i < variables.size(); ++i) pairs.push_back({gradient_values[i], variables[i]});
    return pairs;
  });
}

std::vector<Operation> apply_gradients(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients,
                                       Where where) {
  return call_at(where, [&] {
    check_pairs(gradients, "apply_gradients");
    Graph& graph = gradients.front().variable.graph();
    std::visit(
        [&](const auto& chosen) {
          check_learning_rate(chosen.learning_rate, graph);
          check_numbers(chosen, "apply_gradients");
        },
        optimizer);
    return graph.build_at(where, [&] {
      const auto phase = graph.enter_phase(Phase::training);
      const auto outside = graph.enter_group(kNoGroup);
      // Slots and counters are the optimiser's, also where a scope of shared variables is open.
      const auto alone = graph.enter_shared(nullptr);
      const auto operations =
          std::visit([&](const auto& chosen) { return apply(chosen, gradients, graph); }, optimizer);
      for (Operation operation : operations) graph.add_to_collection(kTrainingOperations, operation);
      return operations;
    });
  });
}

std::vector<Operation> minimize(const Optimizer& optimizer, Value loss, std::vector<Value> variables, Where where) {
  return loss.graph().all_or_nothing(
      [&] { return apply_gradients(optimizer, compute_gradients(loss, std::move(variables), where), where); });
}

ClippedGradients clip_by_global_norm(const std::vector<GradientAndVariable>& gradients, float max_norm, Where where) {
  check_pairs(gradients, "clip_by_global_norm");
  Graph& graph = gradients.front().variable.graph();
  const auto phase = graph.enter_phase(Phase::training);
  return graph.build_at(where, [&] {
    const auto outside = graph.enter_group(kNoGroup);
    std::vector<Value> all;
    for (const GradientAndVariable& pair : gradients) all.push_back(pair.gradient);
    check_max_norm(max_norm, "clip_by_global_norm");
    const Value norm = global_norm(all);
    const Value scale = clip_scale(norm, max_norm);
    ClippedGradients clipped{{}, norm};
    for (const auto& [gradient, variable] : gradients) {
      const auto group = graph.enter_group(variable.node().group());
      clipped.gradients.push_back({gradient * scale, variable});
    }
    return clipped;
  });
}

}  // namespace sectionflow

#include "autodiff/optimizer_updates.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "graph/nodes/unary.h"
#include "graph/ops/basic.h"
#include "graph/ops/update.h"

namespace sectionflow {
namespace {

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

/// What is applied, and when.
struct Applied {
  const std::vector<GradientAndVariable>& pairs;
  const UpdateConditions& conditions;

  Graph& graph() const { return pairs.front().variable.graph(); }
};

Value as_value(Graph& graph, const ScalarOrValue& scalar) {
  if (scalar.number() != nullptr) return constant(graph, *scalar.number(), "learning_rate");
  return *scalar.value();
}

/// Adds the update of op `op` a pair; `inputs_of(pair)` are its inputs.
template <class InputsOf>
std::vector<Operation> apply_each(std::string_view op, const Applied& applied, const std::any& options,
                                  const InputsOf& inputs_of) {
  std::vector<Operation> operations;
  for (const GradientAndVariable& pair : applied.pairs) {
    const auto group = applied.graph().enter_group(pair.variable.node().group());
    operations.push_back(conditional_update(op, inputs_of(pair), options, applied.conditions));
  }
  return operations;
}

/// The same of an optimiser with a slot a variable, `<variable>/<slot>`.
std::vector<Operation> apply_with_slot(std::string_view op, const Applied& applied, const ScalarOrValue& rate,
                                       const std::any& options, std::string_view slot, float content = 0) {
  const Value learning_rate = as_value(applied.graph(), rate);
  return apply_each(op, applied, options, [&](const GradientAndVariable& pair) {
    return std::vector{pair.variable, new_slot(pair.variable, slot, content), pair.gradient, learning_rate};
  });
}

/// The same of Adam's kind, with slots called `<name>_m` and `<name>_v`.
std::vector<Operation> apply_with_moments(const std::string& name, const Applied& applied, const ScalarOrValue& rate,
                                          const std::any& options) {
  Graph& graph = applied.graph();
  const Value learning_rate = as_value(graph, rate);
  const Value steps = new_counter(graph, name + "_steps");
  auto operations = apply_each("apply_" + name, applied, options, [&](const GradientAndVariable& pair) {
    const Value m = new_slot(pair.variable, name + "_m");
    const Value v = new_slot(pair.variable, name + "_v");
    return std::vector{pair.variable, m, v, pair.gradient, learning_rate, steps};
  });
  operations.push_back(
      conditional_update("assign_add", {steps, fill(graph, {}, 1, Dtype::i64, "one_step")}, {}, applied.conditions));
  return operations;
}

std::vector<Operation> apply(const Sgd& sgd, const Applied& applied) {
  const Value learning_rate = as_value(applied.graph(), sgd.learning_rate);
  return apply_each("apply_sgd", applied, {}, [&](const GradientAndVariable& pair) {
    return std::vector{pair.variable, pair.gradient, learning_rate};
  });
}
std::vector<Operation> apply(const Momentum& momentum, const Applied& applied) {
  return apply_with_slot("apply_momentum", applied, momentum.learning_rate, options_of(momentum), "momentum");
}
std::vector<Operation> apply(const Adagrad& adagrad, const Applied& applied) {
  return apply_with_slot("apply_adagrad", applied, adagrad.learning_rate, options_of(adagrad), "adagrad_sum",
                         adagrad.initial_sum);
}
std::vector<Operation> apply(const RmsProp& rms_prop, const Applied& applied) {
  return apply_with_slot("apply_rms_prop", applied, rms_prop.learning_rate, options_of(rms_prop), "rms_prop_average");
}
std::vector<Operation> apply(const Adam& adam, const Applied& applied) {
  return apply_with_moments("adam", applied, adam.learning_rate, options_of(adam));
}
std::vector<Operation> apply(const AdamW& adam_w, const Applied& applied) {
  return apply_with_moments("adam_w", applied, adam_w.learning_rate, options_of(adam_w));
}

void check_learning_rate(const ScalarOrValue& scalar, const Graph& graph, const std::string& call) {
  const float* number = scalar.number();
  SF_CHECK(number == nullptr || (std::isfinite(*number) && *number >= 0), ArgumentError, call, ": learning_rate is ",
           *number, "; wanted 0 or more");
  const Value* value = scalar.value();
  SF_CHECK(value == nullptr || value->type() == (TensorType{Dtype::f32, {}}), ShapeError, call, ": learning_rate '",
           value->name(), "' is ", value->type().text(), "; wanted f32[]");
  SF_CHECK(value == nullptr || &value->graph() == &graph, ArgumentError, call, ": learning_rate '", value->name(),
           "' belongs to another graph");
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

void check_optimizer(const Optimizer& optimizer, const Graph& graph, const std::string& call) {
  std::visit(
      [&](const auto& chosen) {
        check_learning_rate(chosen.learning_rate, graph, call);
        check_numbers(chosen, call);
      },
      optimizer);
}

Value new_slot(Value variable, std::string_view slot, float content) {
  const auto group = variable.graph().enter_group(variable.node().group());
  const std::string name = text_of("/", variable.name(), "/", slot);
  const Value initial =
      fill(variable.graph(), variable.shape(), content, variable.dtype(), text_of(name, "/initial_value"));
  return sectionflow::variable(name, initial, {.trainable = false});
}

Value new_counter(Graph& graph, const std::string& name) {
  return variable(name, fill(graph, {}, 0, Dtype::i64, text_of(name, "/initial_value")), {.trainable = false});
}

std::vector<Operation> optimizer_updates(const Optimizer& optimizer, const std::vector<GradientAndVariable>& pairs,
                                         const UpdateConditions& conditions) {
  Graph& graph = pairs.front().variable.graph();
  const auto phase = graph.enter_phase(Phase::training);
  const auto outside = graph.enter_group(kNoGroup);
  const auto alone = graph.enter_shared(nullptr);
  // Updates widen gradients of bf16 themselves: that of a variable's cast need not be there in f32 too.
  std::vector<GradientAndVariable> applied = pairs;
  for (GradientAndVariable& pair : applied) pair.gradient = before_widening(pair.gradient);
  return std::visit([&](const auto& chosen) { return apply(chosen, Applied{applied, conditions}); }, optimizer);
}

}  // namespace sectionflow

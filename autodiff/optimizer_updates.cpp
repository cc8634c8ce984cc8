#include "autodiff/optimizer_updates.h"

#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <variant>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/nodes/unary.h"
#include "graph/ops/basic.h"
#include "graph/ops/eight_bit_update.h"
#include "graph/ops/scaled_update.h"
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
LionOptions options_of(const Lion& lion) {
  return {lion.beta1, lion.beta2, lion.weight_decay};
}
LambOptions options_of(const Lamb& lamb) {
  return {lamb.beta1, lamb.beta2, lamb.epsilon, lamb.weight_decay};
}
AdafactorOptions options_of(const Adafactor& adafactor) {
  return {adafactor.decay_exponent, adafactor.epsilon,      adafactor.least_scale,
          adafactor.clip,           adafactor.weight_decay, adafactor.relative_step};
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

struct OpAndSlots {
  std::string op;
  std::vector<Value> slots{};
};

/// Adds an update a pair: `step_of(variable)` gives its op and slots.
template <class StepOf>
std::vector<Operation> apply_each(const Applied& applied, Value learning_rate, Value steps, const std::any& options,
                                  const StepOf& step_of) {
  std::vector<Operation> operations;
  for (const GradientAndVariable& pair : applied.pairs) {
    const auto group = applied.graph().enter_group(pair.variable.node().group());
    const auto [op, slots] = step_of(pair.variable);
    std::vector<Value> inputs = {pair.variable};
    inputs.insert(inputs.end(), slots.begin(), slots.end());
    inputs.insert(inputs.end(), {pair.gradient, learning_rate});
    if (steps.valid()) inputs.push_back(steps);
    operations.push_back(conditional_update(op, std::move(inputs), options, applied.conditions));
  }
  return operations;
}

/// The same of an optimiser with a slot a variable, `<variable>/<slot>`.
std::vector<Operation> apply_with_slot(std::string_view op, const Applied& applied, const ScalarOrValue& rate,
                                       const std::any& options, std::string_view slot, float content = 0) {
  return apply_each(applied, as_value(applied.graph(), rate), Value(), options, [&](Value variable) -> OpAndSlots {
    return {std::string(op), {new_slot(variable, slot, content)}};
  });
}

/// The same of an optimiser that counts its steps in `<name>_steps`.
template <class StepOf>
std::vector<Operation> apply_counted(const std::string& name, const Applied& applied, const ScalarOrValue& rate,
                                     const std::any& options, const StepOf& step_of) {
  Graph& graph = applied.graph();
  const Value learning_rate = as_value(graph, rate), steps = new_counter(graph, name + "_steps");
  std::vector<Operation> operations = apply_each(applied, learning_rate, steps, options, step_of);
  operations.push_back(
      conditional_update("assign_add", {steps, fill(graph, {}, 1, Dtype::i64, "one_step")}, {}, applied.conditions));
  return operations;
}

/// The same of Adam's kind, with slots called `<name>_m` and `<name>_v`.
std::vector<Operation> apply_with_moments(const std::string& name, const Applied& applied, const ScalarOrValue& rate,
                                          const std::any& options) {
  return apply_counted(name, applied, rate, options, [&](Value variable) -> OpAndSlots {
    return {"apply_" + name, {new_slot(variable, name + "_m"), new_slot(variable, name + "_v")}};
  });
}

/// The same with slots of a byte an element.
std::vector<Operation> apply_with_coded_moments(const std::string& name, const Applied& applied,
                                                const ScalarOrValue& rate, const std::any& options) {
  return apply_counted(name, applied, rate, options, [&](Value variable) -> OpAndSlots {
    const TensorType codes{Dtype::u8, variable.shape()};
    const TensorType scales{Dtype::f32, {(variable.shape().num_elements() + kSlotBlock - 1) / kSlotBlock}};
    OpAndSlots result{text_of("apply_", name, "_8bit"), {}};
    for (const char* slot : {"_m", "_root"}) {
      result.slots.push_back(new_slot(variable, text_of(name, slot, "_codes"), codes));
      result.slots.push_back(new_slot(variable, text_of(name, slot, "_scales"), scales));
    }
    return result;
  });
}

/// The shape without one of its axes.
Shape without_axis(const Shape& shape, int axis) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.erase(dims.begin() + axis);
  return Shape(dims);
}

OpAndSlots adafactor_step_of(Value variable) {
  const Shape& shape = variable.shape();
  const int rank = shape.rank();
  if (rank < 2) return {"apply_adafactor_by_squares", {new_slot(variable, "adafactor_squares")}};
  return {"apply_adafactor",
          {new_slot(variable, "adafactor_rows", {Dtype::f32, without_axis(shape, rank - 1)}),
           new_slot(variable, "adafactor_columns", {Dtype::f32, without_axis(shape, rank - 2)})}};
}

std::vector<Operation> apply(const Sgd& sgd, const Applied& applied) {
  return apply_each(applied, as_value(applied.graph(), sgd.learning_rate), Value(), {},
                    [](Value) { return OpAndSlots{"apply_sgd"}; });
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
  const auto add = adam.slots == SlotStorage::f32 ? apply_with_moments : apply_with_coded_moments;
  return add("adam", applied, adam.learning_rate, options_of(adam));
}
std::vector<Operation> apply(const AdamW& adam_w, const Applied& applied) {
  const auto add = adam_w.slots == SlotStorage::f32 ? apply_with_moments : apply_with_coded_moments;
  return add("adam_w", applied, adam_w.learning_rate, options_of(adam_w));
}
std::vector<Operation> apply(const Lion& lion, const Applied& applied) {
  return apply_with_slot("apply_lion", applied, lion.learning_rate, options_of(lion), "lion_m");
}
std::vector<Operation> apply(const Lamb& lamb, const Applied& applied) {
  return apply_with_moments("lamb", applied, lamb.learning_rate, options_of(lamb));
}
std::vector<Operation> apply(const Adafactor& adafactor, const Applied& applied) {
  return apply_counted("adafactor", applied, adafactor.learning_rate, options_of(adafactor), adafactor_step_of);
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
  if constexpr (requires { optimizer.slots; }) {
    SF_CHECK(optimizer.slots == SlotStorage::f32 || optimizer.slots == SlotStorage::eight_bit, ArgumentError, label,
             ": slots is ", static_cast<int>(optimizer.slots),
             ", which is none of its values; wanted f32 or eight_bit");
  }
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

void check_sharded(const Optimizer& optimizer, const std::string& call) {
  const auto refuse = [&](const char* name, const char* reason) {
    SF_CHECK_CODE(false, ArgumentError, ErrorCode::ranks, call, ": ", name, ", ", reason,
                  ", takes no variables that ranks hold in shards",
                  hint("train with Adam, AdamW, Momentum, Sgd, Adagrad, RmsProp or Lion, with slots of f32; or with "
                       "VariableDistribution::replicated"));
  };
  if (std::holds_alternative<Lamb>(optimizer)) refuse("Lamb", "whose step is as long as the whole variable");
  if (std::holds_alternative<Adafactor>(optimizer)) refuse("Adafactor", "whose slots are of rows and columns");
  const auto has_codes = [](const auto& chosen) {
    if constexpr (requires { chosen.slots; }) return chosen.slots != SlotStorage::f32;
    return false;
  };
  if (std::visit(has_codes, optimizer)) refuse("slots of 8 bits", "whose blocks have a scale each");
}

void check_optimizer(const Optimizer& optimizer, const Graph& graph, const std::string& call) {
  constexpr const char* kNames[] = {"Sgd",   "Adam", "Momentum", "Adagrad",  "RmsProp",
                                    "AdamW", "Lion", "Lamb",     "Adafactor"};
  static_assert(std::size(kNames) == std::variant_size_v<Optimizer>, "in the order of Optimizer");
  const std::string label = text_of(call, ": ", kNames[optimizer.index()]);
  std::visit(
      [&](const auto& chosen) {
        check_learning_rate(chosen.learning_rate, graph, label);
        check_numbers(chosen, label);
      },
      optimizer);
}

namespace {

/// Of a variable that ranks hold in shards: the rank's shard of the slot that others have whole, by the same name.
Value new_shard_slot(Value shard, std::string_view slot, float content) {
  Graph& graph = shard.graph();
  const std::string name = text_of("/", shard.name().substr(0, shard.name().rfind('/')), "/", slot);
  const TensorType whole = whole_type(shard);
  const Value initial = fill(graph, whole.shape, content, whole.dtype, text_of(name, "/initial_value"));
  const Value result = shard_of_value(name, initial, holders_of_shard(shard));
  graph.add_to_collection(kVariables, result);
  return result;
}

}  // namespace

Value new_slot(Value variable, std::string_view slot, float content) {
  return new_slot(variable, slot, variable.type(), content);
}

Value new_slot(Value variable, std::string_view slot, const TensorType& type, float content) {
  const auto group = variable.graph().enter_group(variable.node().group());
  if (ranks_of_shard(variable) > 0) {
    SF_CHECK(type == variable.type(), InternalError, "a slot ", type.text(), " of the shard '", variable.name(), "'");
    return new_shard_slot(variable, slot, content);
  }
  const std::string name = text_of("/", variable.name(), "/", slot);
  const Value initial = fill(variable.graph(), type.shape, content, type.dtype, text_of(name, "/initial_value"));
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

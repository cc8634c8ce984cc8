#include "graph/ops/update.h"

#include <cmath>
#include <utility>

#include "graph/nodes/shards.h"
#include "graph/nodes/update.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/option_fields.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

using Types = std::vector<TensorType>;

void define_assignments(OpRegistry& registry) {
  registry.add({.name = "assign",
                .inputs = 2,
                .infer =
                    [](const ShapeRequest& r) {
                      check_like_variable(r, {1});
                      return Types{};
                    },
                .recompute = Recompute::once,
                .updated_inputs = {0}});
  add_conditional(registry, {.name = "assign_add",
                             .inputs = 2,
                             .infer =
                                 [](const ShapeRequest& r) {
                                   check_like_variable(r, {1});
                                   SF_CHECK(r.inputs[0].dtype == Dtype::f32 || r.inputs[0].dtype == Dtype::i64,
                                            ArgumentError, r.label, ": variable is ", r.inputs[0].text(),
                                            "; wanted f32 or i64");
                                   return Types{};
                                 },
                             .recompute = Recompute::once,
                             .updated_inputs = {0}});
}

/// Input 1 is like the variable, or rows of such.
void check_rows_like_variable(const ShapeRequest& r) {
  const TensorType &variable = r.inputs[0], &x = r.inputs[1];
  if (x.shape.rank() != variable.shape.rank() + 1) return check_like_variable(r, {1});
  const std::vector<std::int64_t> row(x.shape.dims().begin() + 1, x.shape.dims().end());
  SF_CHECK(matches(variable.shape, Shape(row)), ShapeError, r.label, ": variable is ", variable.text(), ", input 1 is ",
           x.text(), "; wanted one like the variable, or rows of such");
  SF_CHECK(x.dtype == variable.dtype, ArgumentError, r.label, ": variable is ", variable.text(), ", input 1 is ",
           x.text(), "; try cast");
}

void define_moving_average(OpRegistry& registry) {
  registry.add({.name = "update_moving_average",
                .inputs = 3,
                .options = described_by<MovingAverageOptions>(
                    [](auto& fields, auto& options) { fields("decay", options.decay); }),
                .infer =
                    [](const ShapeRequest& r) {
                      const float decay = r.get<MovingAverageOptions>().decay;
                      SF_CHECK(decay >= 0 && decay <= 1, ArgumentError, r.label, ": decay ", decay, "; wanted 0 to 1");
                      check_f32_variable(r);
                      check_rows_like_variable(r);
                      check_scalar(r, 2, Dtype::boolean, "is_training");
                      return Types{};
                    },
                .recompute = Recompute::once,
                .uses =
                    [](std::size_t, HostBooleans booleans) {
                      const InputUse use = booleans[2].value_or(false) ? InputUse::data : InputUse::unused;
                      return std::vector{use, use, InputUse::host_boolean};
                    },
                .has_effect = [](HostBooleans booleans) { return booleans[2].value_or(false); },
                .updated_inputs = {0}});
}

// The first moment, or velocity, moves the variable: times a rate of 0 or by an infinite root, infinity is NaN. By the
// root of the squares the variable's step is divided: where these are infinite, it stays.
constexpr LeftByUpdate kLeftInDirection = LeftByUpdate::seen;

void define_optimizer_updates(OpRegistry& registry) {
  constexpr LeftByUpdate kOwn = LeftByUpdate::own;
  add_optimizer_update(registry, {.name = "apply_sgd"});
  const auto of_moments = [&](const char* name) -> OptimizerUpdate {
    return {.name = name, .num_slots = 2, .counts = true, .left = {kOwn, kLeftInDirection, kOwn}};
  };
  add_optimizer_update<AdamOptions>(registry, of_moments("apply_adam"), describe_moments);
  add_optimizer_update<AdamWOptions>(registry, of_moments("apply_adam_w"), describe_moments);
  const auto of_slot = [&](const char* name, LeftByUpdate left) -> OptimizerUpdate {
    return {.name = name, .num_slots = 1, .left = {kOwn, left}};
  };
  add_optimizer_update<MomentumOptions>(registry, of_slot("apply_momentum", kLeftInDirection),
                                        [](auto& fields, auto& options) {
                                          fields("momentum", options.momentum);
                                          fields("nesterov", options.nesterov);
                                        });
  add_optimizer_update<AdagradOptions>(registry, of_slot("apply_adagrad", kOwn),
                                       [](auto& fields, auto& options) { fields("epsilon", options.epsilon); });
  add_optimizer_update<RmsPropOptions>(registry, of_slot("apply_rms_prop", kOwn), [](auto& fields, auto& options) {
    fields("decay", options.decay);
    fields("epsilon", options.epsilon);
  });
  add_optimizer_update<LionOptions>(registry, of_slot("apply_lion", kOwn), [](auto& fields, auto& options) {
    fields("beta1", options.beta1);
    fields("beta2", options.beta2);
    fields("weight_decay", options.weight_decay);
  });
}

void define_accumulation(OpRegistry& registry) {
  registry.add({.name = "accumulated", .inputs = 3, .infer = [](const ShapeRequest& r) {
                  check_f32_variable(r);
                  check_like_variable(r, {1});
                  check_scalar(r, 2, Dtype::i64, "micro_batch");
                  return Types{r.inputs[0]};
                }});
}

std::int64_t ranks_of(const ShapeRequest& r) {
  const std::int64_t ranks = r.get<RanksOptions>().ranks;
  SF_CHECK(ranks >= 1 && ranks <= kMostRanks, ArgumentError, r.label, ": ", ranks, " ranks; wanted 1 to ", kMostRanks);
  return ranks;
}

std::vector<Value> values_of(Node& node) {
  std::vector<Value> values;
  for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) values.push_back(node.output(i));
  return values;
}

/// Inputs: xs; or as many accumulators, which are variables, the xs, and the micro-batch.
Types infer_all_reduced(const ShapeRequest& r) {
  (void)ranks_of(r);
  const std::size_t count = r.inputs.size();
  const bool accumulates = count > 1 && r.inputs.back().dtype == Dtype::i64;
  SF_CHECK(!accumulates || count % 2 == 1, ArgumentError, r.label, ": ", count,
           " inputs; wanted as many accumulators as there is to sum, and the micro-batch");
  const auto xs = r.inputs.begin() + (accumulates ? static_cast<std::ptrdiff_t>(count / 2) : 0);
  const Types sums(xs, accumulates ? r.inputs.end() - 1 : r.inputs.end());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    SF_CHECK(sums[i].dtype == Dtype::f32, ArgumentError, r.label, ": x is ", sums[i].text(), "; wanted f32");
    SF_CHECK(!accumulates || (r.inputs[i].dtype == Dtype::f32 && matches(r.inputs[i].shape, sums[i].shape)), ShapeError,
             r.label, ": x is ", sums[i].text(), ", its accumulator ", r.inputs[i].text(), "; wanted the same");
  }
  if (accumulates) check_scalar(r, static_cast<int>(count) - 1, Dtype::i64, "micro_batch");
  return accumulates ? Types(r.inputs.begin(), xs) : sums;
}

void define_ranks(OpRegistry& registry) {
  const auto add = [&](const char* name, InputCount inputs, std::function<Types(const ShapeRequest&)> infer) {
    registry.add(
        {.name = name,
         .inputs = inputs,
         .options = described_by<RanksOptions>([](auto& fields, auto& options) { fields("ranks", options.ranks); }),
         .infer = std::move(infer),
         .recompute = Recompute::once,
         .communicates = true});
  };
  add("all_reduced", {1, kAnyNumber}, infer_all_reduced);
  add("all_gathered", 1, [](const ShapeRequest& r) {
    std::vector<std::int64_t> dims = r.inputs[0].shape.dims();
    dims.insert(dims.begin(), ranks_of(r));
    return Types{{r.inputs[0].dtype, Shape(dims)}};
  });
  add("of_last_rank", 1, [](const ShapeRequest& r) {
    (void)ranks_of(r);
    return Types{r.inputs[0]};
  });
}

/// Inputs: average, variable, updates. That the variable is among the updated ones has its average follow the update
/// of the same cycle; its content stays.
void define_weight_average(OpRegistry& registry) {
  add_conditional(registry, {.name = "average_weights",
                             .inputs = 3,
                             .options = described_by<WeightAverageOptions>([](auto& fields, auto& options) {
                               fields.choice(
                                   "kind", options.kind,
                                   {{Averaging::exponential, "exponential"}, {Averaging::uniform, "uniform"}});
                               fields("decay", options.decay);
                               fields("start", options.start);
                               fields("every", options.every);
                             }),
                             .infer =
                                 [](const ShapeRequest& r) {
                                   check_f32_variable(r);
                                   check_like_variable(r, {1});
                                   check_scalar(r, 2, Dtype::i64, "updates");
                                   check_options(r.get<WeightAverageOptions>(), r.label);
                                   return Types{};
                                 },
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1},
                             .left_by_update = {LeftByUpdate::own, LeftByUpdate::unchanged}});
}

}  // namespace

void define_update_ops(OpRegistry& registry) {
  define_assignments(registry);
  define_moving_average(registry);
  define_optimizer_updates(registry);
  define_accumulation(registry);
  define_ranks(registry);
  define_shard_ops(registry);
  define_weight_average(registry);
}

Operation conditional_update(std::string_view op, std::vector<Value> inputs, std::any options,
                             const UpdateConditions& conditions) {
  SF_CHECK(!inputs.empty(), InternalError, op, " got no inputs");
  const std::size_t num_variables = op_registry().at(std::string(op)).updated_inputs.size();
  Graph& graph = inputs[0].graph();
  if (conditions.condition.valid()) {
    inputs.push_back(conditions.condition);
  } else if (conditions.gate.valid()) {
    inputs.push_back(constant(graph, HostTensor::scalar(true), "always"));
  }
  if (conditions.gate.valid()) inputs.push_back(conditions.gate);
  return add_update(op, std::move(inputs), num_variables, std::move(options), {});
}

Value accumulated(Value accumulator, Value gradient, Value micro_batch) {
  return gradient.graph().add_node("accumulated", {accumulator, gradient, micro_batch}, {}, "accumulated").output();
}

std::vector<Value> all_reduced(std::vector<Value> xs, int ranks) {
  SF_CHECK(!xs.empty(), InternalError, "all_reduced of nothing");
  Graph& graph = xs.front().graph();
  return values_of(graph.add_node("all_reduced", std::move(xs), RanksOptions{ranks}, "all_reduced"));
}
std::vector<Value> all_reduced(std::vector<Value> accumulators, const std::vector<Value>& xs, Value micro_batch,
                               int ranks) {
  std::vector<Value> inputs = std::move(accumulators);
  inputs.insert(inputs.end(), xs.begin(), xs.end());
  inputs.push_back(micro_batch);
  Graph& graph = micro_batch.graph();
  return values_of(graph.add_node("all_reduced", std::move(inputs), RanksOptions{ranks}, "all_reduced"));
}
Value all_reduced(Value x, int ranks) {
  return all_reduced(std::vector{x}, ranks).front();
}
Value all_gathered(Value x, int ranks) {
  return x.graph().add_node("all_gathered", {x}, RanksOptions{ranks}, "all_gathered").output();
}
Value of_last_rank(Value x, int ranks) {
  return x.graph().add_node("of_last_rank", {x}, RanksOptions{ranks}, "of_last_rank").output();
}

Operation assign(Value variable, Value x, Where where) {
  return add_update("assign", {variable, x}, 1, {}, where);
}
Operation assign_add(Value variable, Value x, Where where) {
  return add_update("assign_add", {variable, x}, 1, {}, where);
}
Operation update_moving_average(Value variable, Value x, Value is_training, float decay, Where where) {
  return variable.graph().build_at(where, [&] {
    const std::string label = text_of("update_moving_average of '", variable.name(), "'");
    SF_CHECK(decay >= 0 && decay <= 1, ArgumentError, label, ": decay ", decay, "; wanted 0 to 1");
    check_host_boolean(is_training, label);
    return add_update("update_moving_average", {variable, x, is_training}, 1, MovingAverageOptions{decay}, {});
  });
}
Operation update_moving_average(Value variable, Value x, float decay, Where where) {
  return variable.graph().build_at(
      where, [&] { return update_moving_average(variable, x, variable.graph().training(), decay, {}); });
}
Operation apply_sgd(Value variable, Value gradient, Value learning_rate, Where where) {
  return add_update("apply_sgd", {variable, gradient, learning_rate}, 1, {}, where);
}
Operation apply_adam(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                     AdamOptions options, Where where) {
  return add_update("apply_adam", {variable, m, v, gradient, learning_rate, steps}, 3, options, where);
}
Operation apply_adam_w(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                       AdamWOptions options, Where where) {
  return add_update("apply_adam_w", {variable, m, v, gradient, learning_rate, steps}, 3, options, where);
}
Operation apply_momentum(Value variable, Value velocity, Value gradient, Value learning_rate, MomentumOptions options,
                         Where where) {
  return add_update("apply_momentum", {variable, velocity, gradient, learning_rate}, 2, options, where);
}
Operation apply_adagrad(Value variable, Value sum, Value gradient, Value learning_rate, AdagradOptions options,
                        Where where) {
  return add_update("apply_adagrad", {variable, sum, gradient, learning_rate}, 2, options, where);
}
Operation apply_rms_prop(Value variable, Value average, Value gradient, Value learning_rate, RmsPropOptions options,
                         Where where) {
  return add_update("apply_rms_prop", {variable, average, gradient, learning_rate}, 2, options, where);
}

Operation apply_lion(Value variable, Value m, Value gradient, Value learning_rate, LionOptions options, Where where) {
  return add_update("apply_lion", {variable, m, gradient, learning_rate}, 2, options, where);
}

void check_options(const WeightAverageOptions& options, const std::string& label) {
  SF_CHECK_CODE(options.decay >= 0 && options.decay < 1, ArgumentError, ErrorCode::weight_average, label, ": decay is ",
                options.decay, "; wanted 0 to 1, less than 1", hint("0.999 averages over about 1000 updates"));
  SF_CHECK_CODE(options.start >= 0, ArgumentError, ErrorCode::weight_average, label, ": start is ", options.start,
                "; wanted the number of updates before the first that counts, 0 or more");
  SF_CHECK_CODE(options.every >= 1, ArgumentError, ErrorCode::weight_average, label, ": every is ", options.every,
                "; wanted 1 or more", hint("1 takes every update into the average, 2 every other one"));
}
void check_options(const AdamOptions& options, const std::string& label) {
  check_decay(options.beta1, "beta1", label);
  check_decay(options.beta2, "beta2", label);
  check_not_negative(options.epsilon, "epsilon", label);
}
void check_options(const AdamWOptions& options, const std::string& label) {
  check_options(AdamOptions{options.beta1, options.beta2, options.epsilon}, label);
  check_not_negative(options.weight_decay, "weight_decay", label);
}
void check_options(const MomentumOptions& options, const std::string& label) {
  check_not_negative(options.momentum, "momentum", label);
  SF_CHECK(options.momentum > 0 || !options.nesterov, ArgumentError, label,
           ": nesterov without momentum; try a momentum of 0.9");
}
void check_options(const AdagradOptions& options, const std::string& label) {
  check_not_negative(options.epsilon, "epsilon", label);
}
void check_options(const RmsPropOptions& options, const std::string& label) {
  check_decay(options.decay, "decay", label);
  check_not_negative(options.epsilon, "epsilon", label);
}

void check_options(const LionOptions& options, const std::string& label) {
  check_decay(options.beta1, "beta1", label);
  check_decay(options.beta2, "beta2", label);
  check_not_negative(options.weight_decay, "weight_decay", label);
}

}  // namespace sectionflow

#include "graph/ops/scaled_update.h"

#include <cmath>

#include "base/error.h"
#include "graph/op_registry.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

void check_factors(const ShapeRequest& r) {
  const Shape& variable = r.inputs[0].shape;
  SF_CHECK(variable.rank() >= 2, ShapeError, r.label, ": variable is ", r.inputs[0].text(),
           "; wanted two axes or more, of which the last two are factored",
           hint("apply_adafactor_by_squares takes vectors and scalars"));
  for (const int slot : {1, 2}) {
    std::vector<std::int64_t> dims = variable.dims();
    dims.erase(dims.end() - slot);
    const TensorType wanted{Dtype::f32, Shape(dims)};
    SF_CHECK(r.inputs[slot] == wanted, ShapeError, r.label, ": variable is ", r.inputs[0].text(), ", its ",
             slot == 1 ? "rows " : "columns ", r.inputs[slot].text(), "; wanted ", wanted.text());
  }
}

}  // namespace

void define_scaled_update_ops(OpRegistry& registry) {
  add_optimizer_update<LambOptions>(registry, {.name = "apply_lamb", .num_slots = 2, .counts = true}, describe_moments);
  const auto describe_adafactor = [](auto& fields, auto& options) {
    fields("decay_exponent", options.decay_exponent);
    fields("epsilon", options.epsilon);
    fields("least_scale", options.least_scale);
    fields("clip", options.clip);
    fields("weight_decay", options.weight_decay);
    fields("relative_step", options.relative_step);
  };
  add_optimizer_update<AdafactorOptions>(
      registry, {.name = "apply_adafactor", .num_slots = 2, .counts = true, .check_slots = check_factors},
      describe_adafactor);
  add_optimizer_update<AdafactorOptions>(
      registry, {.name = "apply_adafactor_by_squares", .num_slots = 1, .counts = true}, describe_adafactor);
}

Operation apply_lamb(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                     LambOptions options, Where where) {
  return add_update("apply_lamb", {variable, m, v, gradient, learning_rate, steps}, 3, options, where);
}
Operation apply_adafactor(Value variable, Value rows, Value columns, Value gradient, Value learning_rate, Value steps,
                          AdafactorOptions options, Where where) {
  return add_update("apply_adafactor", {variable, rows, columns, gradient, learning_rate, steps}, 3, options, where);
}
Operation apply_adafactor_by_squares(Value variable, Value squares, Value gradient, Value learning_rate, Value steps,
                                     AdafactorOptions options, Where where) {
  return add_update("apply_adafactor_by_squares", {variable, squares, gradient, learning_rate, steps}, 2, options,
                    where);
}

void check_options(const LambOptions& options, const std::string& label) {
  check_decay(options.beta1, "beta1", label);
  check_decay(options.beta2, "beta2", label);
  check_not_negative(options.epsilon, "epsilon", label);
  check_not_negative(options.weight_decay, "weight_decay", label);
}
void check_options(const AdafactorOptions& options, const std::string& label) {
  check_not_negative(options.decay_exponent, "decay_exponent", label);
  check_not_negative(options.epsilon, "epsilon", label);
  check_not_negative(options.least_scale, "least_scale", label);
  check_not_negative(options.weight_decay, "weight_decay", label);
  SF_CHECK(options.clip > 0 && std::isfinite(options.clip), ArgumentError, label, ": clip is ", options.clip,
           "; wanted a positive number", hint("1 is the paper's"));
}

}  // namespace sectionflow

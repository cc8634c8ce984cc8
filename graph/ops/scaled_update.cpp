#include "graph/ops/scaled_update.h"

#include <cmath>

#include "base/error.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

using Types = std::vector<TensorType>;

/// Of the last three inputs an update has: gradient, learning_rate, steps.
void check_what_steps_by(const ShapeRequest& r, int gradient) {
  check_gradient(r, gradient);
  check_scalar(r, gradient + 1, Dtype::f32, "learning_rate");
  check_scalar(r, gradient + 2, Dtype::i64, "steps");
}

/// Inputs: variable, m, v, gradient, learning_rate, steps.
Types infer_lamb(const ShapeRequest& r) {
  check_f32_variable(r);
  check_like_variable(r, {1, 2});
  check_what_steps_by(r, 3);
  check_options(r.get<LambOptions>(), r.label);
  return {};
}

/// Inputs: variable, rows, columns, gradient, learning_rate, steps.
Types infer_adafactor(const ShapeRequest& r) {
  check_f32_variable(r);
  const Shape& variable = r.inputs[0].shape;
  SF_CHECK(variable.rank() >= 2, ShapeError, r.label, ": variable is ", r.inputs[0].text(),
           "; wanted two axes or more, of which the last two are factored",
           hint("apply_adafactor_by_squares takes vectors and scalars"));
  for (const int axis : {variable.rank() - 1, variable.rank() - 2}) {
    const int slot = axis == variable.rank() - 1 ? 1 : 2;
    std::vector<std::int64_t> dims;
    for (int i = 0; i < variable.rank(); ++i) {
      if (i != axis) dims.push_back(variable[i]);
    }
    const TensorType wanted{Dtype::f32, Shape(dims)};
    SF_CHECK(r.inputs[slot] == wanted, ShapeError, r.label, ": variable is ", r.inputs[0].text(), ", its ",
             slot == 1 ? "rows " : "columns ", r.inputs[slot].text(), "; wanted ", wanted.text());
  }
  check_what_steps_by(r, 3);
  check_options(r.get<AdafactorOptions>(), r.label);
  return {};
}

/// Inputs: variable, squares, gradient, learning_rate, steps.
Types infer_adafactor_by_squares(const ShapeRequest& r) {
  check_f32_variable(r);
  check_like_variable(r, {1});
  check_what_steps_by(r, 2);
  check_options(r.get<AdafactorOptions>(), r.label);
  return {};
}

OptionsDescription adafactor_options() {
  return described_by<AdafactorOptions>([](auto& fields, auto& options) {
    fields("decay_exponent", options.decay_exponent);
    fields("epsilon", options.epsilon);
    fields("least_scale", options.least_scale);
    fields("clip", options.clip);
    fields("weight_decay", options.weight_decay);
    fields("relative_step", options.relative_step);
  });
}

}  // namespace

void define_scaled_update_ops(OpRegistry& registry) {
  add_conditional(registry, {.name = "apply_lamb",
                             .inputs = 6,
                             .options = described_by<LambOptions>([](auto& fields, auto& options) {
                               fields("beta1", options.beta1);
                               fields("beta2", options.beta2);
                               fields("epsilon", options.epsilon);
                               fields("weight_decay", options.weight_decay);
                             }),
                             .infer = infer_lamb,
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1, 2}});
  add_conditional(registry, {.name = "apply_adafactor",
                             .inputs = 6,
                             .options = adafactor_options(),
                             .infer = infer_adafactor,
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1, 2}});
  add_conditional(registry, {.name = "apply_adafactor_by_squares",
                             .inputs = 5,
                             .options = adafactor_options(),
                             .infer = infer_adafactor_by_squares,
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1}});
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

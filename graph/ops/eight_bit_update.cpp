#include "graph/ops/eight_bit_update.h"

#include "base/error.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

/// Inputs: variable, m_codes, m_scales, root_codes, root_scales, gradient, learning_rate, steps.
template <class Options>
std::vector<TensorType> infer_adam_8bit(const ShapeRequest& r) {
  check_f32_variable(r);
  const Shape& shape = r.inputs[0].shape;
  const TensorType codes{Dtype::u8, shape};
  const TensorType scales{Dtype::f32, {(shape.num_elements() + kSlotBlock - 1) / kSlotBlock}};
  for (const int slot : {1, 2, 3, 4}) {
    const TensorType& wanted = slot % 2 == 1 ? codes : scales;
    SF_CHECK(r.inputs[slot] == wanted, ShapeError, r.label, ": variable is ", r.inputs[0].text(), ", input ", slot, " ",
             r.inputs[slot].text(), "; wanted ", wanted.text(),
             slot % 2 == 1 ? ", a code an element" : ", one a block");
  }
  check_gradient(r, 5);
  check_scalar(r, 6, Dtype::f32, "learning_rate");
  check_scalar(r, 7, Dtype::i64, "steps");
  check_options(r.get<Options>(), r.label);
  return {};
}

template <class Options>
void add_adam_8bit(OpRegistry& registry, const char* name, OptionsDescription options) {
  add_conditional(registry, {.name = name,
                             .inputs = 8,
                             .options = std::move(options),
                             .infer = infer_adam_8bit<Options>,
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1, 2, 3, 4}});
}

}  // namespace

void define_eight_bit_update_ops(OpRegistry& registry) {
  const auto describe_adam = [](auto& fields, auto& options) {
    fields("beta1", options.beta1);
    fields("beta2", options.beta2);
    fields("epsilon", options.epsilon);
  };
  add_adam_8bit<AdamOptions>(registry, "apply_adam_8bit", described_by<AdamOptions>(describe_adam));
  add_adam_8bit<AdamWOptions>(registry, "apply_adam_w_8bit",
                              described_by<AdamWOptions>([=](auto& fields, auto& options) {
                                describe_adam(fields, options);
                                fields("weight_decay", options.weight_decay);
                              }));
}

Operation apply_adam_8bit(Value variable, Value m_codes, Value m_scales, Value root_codes, Value root_scales,
                          Value gradient, Value learning_rate, Value steps, AdamOptions options, Where where) {
  return add_update("apply_adam_8bit",
                    {variable, m_codes, m_scales, root_codes, root_scales, gradient, learning_rate, steps}, 5, options,
                    where);
}
Operation apply_adam_w_8bit(Value variable, Value m_codes, Value m_scales, Value root_codes, Value root_scales,
                            Value gradient, Value learning_rate, Value steps, AdamWOptions options, Where where) {
  return add_update("apply_adam_w_8bit",
                    {variable, m_codes, m_scales, root_codes, root_scales, gradient, learning_rate, steps}, 5, options,
                    where);
}

}  // namespace sectionflow

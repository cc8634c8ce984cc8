#include "graph/ops/eight_bit_update.h"

#include "base/error.h"
#include "graph/op_registry.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

void check_coded_slots(const ShapeRequest& r) {
  const Shape& shape = r.inputs[0].shape;
  const TensorType codes{Dtype::u8, shape};
  const TensorType scales{Dtype::f32, {(shape.num_elements() + kSlotBlock - 1) / kSlotBlock}};
  for (const int slot : {1, 2, 3, 4}) {
    const TensorType& wanted = slot % 2 == 1 ? codes : scales;
    SF_CHECK(r.inputs[slot] == wanted, ShapeError, r.label, ": variable is ", r.inputs[0].text(), ", input ", slot, " ",
             r.inputs[slot].text(), "; wanted ", wanted.text(),
             slot % 2 == 1 ? ", a code an element" : ", one a block");
  }
}

template <class Options>
void add_coded(OpRegistry& registry, const char* name) {
  add_optimizer_update<Options>(
      registry, {.name = name, .num_slots = 4, .counts = true, .check_slots = check_coded_slots}, describe_moments);
}

}  // namespace

void define_eight_bit_update_ops(OpRegistry& registry) {
  add_coded<AdamOptions>(registry, "apply_adam_8bit");
  add_coded<AdamWOptions>(registry, "apply_adam_w_8bit");
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

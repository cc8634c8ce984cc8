#pragma once

#include "base/export.h"
#include "graph/ops/update.h"

namespace SF_API sectionflow {

// Adam with a byte an element for each slot. A slot is cut into blocks of kSlotBlock elements, in the order in which
// they lie in memory. A block has one scale, the largest magnitude in it, and an element one code, that of its quotient
// by the scale, to the nearest that there is. Quotients have the dynamic codes of formulas/eight_bit_update.h: evenly
// spaced within a decade, twice as many in each decade as in the next smaller one, 1 among them. Evenly spaced codes of
// the whole block would make zeros of all that is a few hundred times smaller than its largest. Of squares the roots
// are kept: they span half as many decades, and what is not 0 is not rounded to 0, by which steps would be divided.

/// Elements that share a scale; the last block of a variable may have fewer.
inline constexpr std::int64_t kSlotBlock = 256;

/// As apply_adam, with m = m_scales[block] decoded(m_codes) and v = (root_scales[block] decoded(root_codes))^2 before,
/// and encoded like that after it. The variable is stepped by m and v before they are rounded.
/// Shapes: m_codes, root_codes u8 variables like the variable; m_scales, root_scales f32 variables [blocks], of
/// kSlotBlock elements; gradient like the variable, f32 or bf16; learning_rate [] f32; steps [] i64, the steps already
/// taken. Zeros in all slots are an m and v of 0. Elements of a block that are a million times smaller than its
/// largest have an m of 0: beside a huge gradient others stand still. An infinite or NaN gradient takes its block with it.
/// Source: Dettmers et al. 2022, "8-bit optimizers via block-wise quantization", whose v is not kept as its root.
Operation apply_adam_8bit(Value variable, Value m_codes, Value m_scales, Value root_codes, Value root_scales,
                          Value gradient, Value learning_rate, Value steps, AdamOptions options = {},
                          Where where = Where::here());
/// The same of apply_adam_w.
Operation apply_adam_w_8bit(Value variable, Value m_codes, Value m_scales, Value root_codes, Value root_scales,
                            Value gradient, Value learning_rate, Value steps, AdamWOptions options = {},
                            Where where = Where::here());

}  // namespace sectionflow

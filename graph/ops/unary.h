#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Elementary functions, element by element. Shapes: any; result like x. f32 or bf16; neg also i64.
// Throws: ArgumentError for another dtype.

/// -x. A result out of the range of i64 wraps around.
Value neg(Value x, Where where = Where::here());
/// x x.
Value square(Value x, Where where = Where::here());
/// The square root; NaN for x < 0. Its gradient at 0 is infinite.
Value sqrt(Value x, Where where = Where::here());
/// 1 / sqrt(x); infinity at 0, NaN for x < 0.
Value rsqrt(Value x, Where where = Where::here());
/// e^x within 1 unit in the last place; infinity above 88.72, and 0 below -87.33, where e^x is no normal number.
Value exp(Value x, Where where = Where::here());
/// The natural logarithm within 1 unit in the last place; -infinity at 0, NaN for x < 0.
Value log(Value x, Where where = Where::here());

/// dx = 2 dy x. Shapes: dy, x and result alike. f32 or bf16.
Value square_grad(Value dy, Value x);
/// dx = dy / (2 y) from y = sqrt(x). Shapes: dy, y and result alike. f32 or bf16.
Value sqrt_grad(Value dy, Value y);
/// dx = -dy y^3 / 2 from y = rsqrt(x). Shapes: dy, y and result alike. f32 or bf16.
Value rsqrt_grad(Value dy, Value y);

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/ops/arithmetic.h"

namespace SF_API sectionflow {

/// sum + part, added in f32 and rounded once to `dtype`: a step of a sum of bf16 values that is carried in f32 and
/// rounded in its last step. Shapes: equal; result like `sum`. `part` is bf16, `sum` and `dtype` f32 or bf16.
Value accumulate(Value sum, Value part, Dtype dtype);

/// Options of the op "accumulate".
struct AccumulateOptions {
  Dtype dtype = Dtype::f32;  ///< of the result
};

/// The sum of `x` over the dimensions along which `like` was repeated to reach x's shape: the gradient of broadcasting.
/// Reads nothing of `like` but its shape. Shapes: x [...], like one that broadcasts to x; result like `like`.
Value reduce_to_like(Value x, Value like);

/// dy where a > b, dy / 2 where a = b, else 0: the gradient of maximum to a. Shapes: dy [...], a and b that broadcast
/// to dy; result like dy. f32 or bf16.
Value maximum_grad(Value dy, Value a, Value b);
/// The same for minimum: dy where a < b.
Value minimum_grad(Value dy, Value a, Value b);
/// dy b a^(b - 1), and 0 where b = 0: the gradient of pow to a. Shapes as above.
Value pow_grad_base(Value dy, Value a, Value b);
/// dy y ln a from y = a^b, and 0 where a = 0 and y is finite: the gradient of pow to b. Shapes as above.
Value pow_grad_exponent(Value dy, Value y, Value a);

}  // namespace sectionflow

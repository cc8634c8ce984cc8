#pragma once

#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/broadcast_to.h"
#include "graph/ops/cast.h"

// What gradient rules compose of small operations.

namespace sectionflow {

/// A number as a scalar of x's dtype, f32 or bf16.
inline Value scalar_like(Value x, float number) {
  if (x.dtype() != Dtype::bf16) return constant(x.graph(), number);
  return constant(x.graph(), HostTensor::scalar(BFloat16(number)));
}

/// `number` everywhere. Reads nothing of x but its shape.
inline Value full_like(Value x, float number) {
  return broadcast_like(scalar_like(x, number), x);
}

/// x in `dtype`; x itself where it is.
inline Value in_dtype(Value x, Dtype dtype) {
  return x.dtype() == dtype ? x : cast(x, dtype);
}

/// a + b, where an invalid value stands for zero.
inline Value plus(Value a, Value b) {
  if (!a.valid()) return b;
  return b.valid() ? add(a, b) : a;
}

}  // namespace sectionflow

#pragma once

#include <string_view>

#include "autodiff/gradient_registry.h"
#include "base/export.h"
#include "graph/nodes/arithmetic.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/layout.h"
#include "graph/ops/unary.h"

// What gradient rules compose of small operations.
namespace SF_API sectionflow {

/// A number as a scalar of x's dtype, f32 or bf16.
inline Value scalar_like(Value x, float number) {
  if (x.dtype() != Dtype::bf16) return constant(x.graph(), number);
  return constant(x.graph(), HostTensor::scalar(BFloat16(number)));
}

/// `number` everywhere. Reads nothing of x but its shape.
inline Value full_like(Value x, float number) {
  return broadcast_like(scalar_like(x, number), x);
}

/// a + b, where an invalid value stands for zero.
inline Value plus(Value a, Value b) {
  if (!a.valid()) return b;
  return b.valid() ? add(a, b) : a;
}

/// A gradient with the shape of the broadcast, summed to the shape of the input that was broadcast, if it was.
inline Value like_input(Value gradient, Value input) {
  const bool same = gradient.shape() == input.shape() && input.shape().is_static();
  return same || gradient.shape().rank() == 0 ? gradient : reduce_to_like(gradient, input);
}

/// Some gradient ops read what the forward op left of the same x: their rules count its dependence on x in the gradient
/// of x. Throws: ArgumentError (SF-E031) unless input `statistics` is an output of a node of op `forward` whose first
/// inputs are the inputs from `first` on, `count` of them.
void check_own_statistics(const GradientRequest& request, int statistics, std::string_view forward, int first,
                          int count = 1);

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/ops/unary.h"

namespace SF_API sectionflow {

/// dx = 2 dy x. Shapes: dy, x and result alike. f32 or bf16.
Value square_grad(Value dy, Value x);
/// dx = dy / (2 y) from y = sqrt(x). Shapes: dy, y and result alike. f32 or bf16.
Value sqrt_grad(Value dy, Value y);
/// dx = -dy y^3 / 2 from y = rsqrt(x). Shapes: dy, y and result alike. f32 or bf16.
Value rsqrt_grad(Value dy, Value y);

// Gradients, from the output where it tells enough. Shapes: dy, y or x, and result alike. f32 or bf16.

/// dx = y > 0 ? dy : 0.
Value relu_grad(Value dy, Value y);
/// dx = dy (1 - y^2).
Value tanh_grad(Value dy, Value y);
/// dx = dy y (1 - y).
Value sigmoid_grad(Value dy, Value y);
/// dx = dy s (1 + x (1 - s)), s = sigmoid(x).
Value silu_grad(Value dy, Value x);
/// dx = dy times the derivative of the gelu that `options` name, at x.
Value gelu_grad(Value dy, Value x, GeluOptions options);

/// dx = y > 0 ? dy : negative_slope dy, from y = leaky_relu(x).
Value leaky_relu_grad(Value dy, Value y, LeakyReluOptions options);
/// dx = y > 0 ? dy : dy (y + alpha), from y = elu(x).
Value elu_grad(Value dy, Value y, EluOptions options);
/// dx = dy times the derivative of mish at x.
Value mish_grad(Value dy, Value x);
/// dx = x <= -3 ? 0 : x >= 3 ? dy : dy (2 x + 3) / 6.
Value hard_swish_grad(Value dy, Value x);

/// Options of the ops "clip" and "clip_grad".
struct ClipOptions {
  float low, high;
};

/// dx = low <= x <= high ? dy : 0. Shapes: dy, x and result alike. f32 or bf16.
Value clip_grad(Value dy, Value x, ClipOptions options);

/// Options of the op "cast".
struct CastOptions {
  Dtype dtype = Dtype::f32;
};

/// What a cast from bf16 that gradients() has made widens, for whoever takes either; any other value as it is, and that
/// of a cast with edges of its own.
Value before_widening(Value x);

}  // namespace sectionflow

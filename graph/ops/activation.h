#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Activations, element by element. Shapes: any; y like x. f32 or bf16. Throws: ArgumentError for another dtype. Those
// of exponentials err by less than 4 epsilons of f32; NaN stays NaN.

/// y = max(x, 0).
Value relu(Value x, Where where = Where::here());
/// y = tanh(x).
Value tanh(Value x, Where where = Where::here());
/// y = 1 / (1 + e^-x).
Value sigmoid(Value x, Where where = Where::here());
/// y = x sigmoid(x), also called swish.
Value silu(Value x, Where where = Where::here());

/// Which of the two functions of that name.
enum class Gelu {
  exact,  ///< x P(X < x) of the normal distribution: x (1 + erf(x / sqrt(2))) / 2
  tanh    ///< x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which GPT-2 was trained with
};
/// Which gelu.
struct GeluOptions {
  Gelu approximation = Gelu::exact;
};
/// Source: Hendrycks and Gimpel 2016, Gaussian error linear units.
Value gelu(Value x, GeluOptions options = {}, Where where = Where::here());

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

}  // namespace sectionflow

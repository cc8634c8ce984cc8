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
/// e^x - 1 without the loss of digits near 0, within 3 units in the last place.
Value expm1(Value x, Where where = Where::here());
/// ln(1 + x) without the loss of digits near 0, within 4 units in the last place; -infinity at -1, NaN below.
Value log1p(Value x, Where where = Where::here());
/// |x|. Its gradient at 0 is 0.
Value abs(Value x, Where where = Where::here());
/// 1 for x > 0, -1 for x < 0; NaN stays, and so do zeros and what counts as such, |x| < 2^-126. Its gradient is 0
/// everywhere.
Value sign(Value x, Where where = Where::here());
/// The sine of x radians within 1 unit in the last place, however large x is; NaN for an infinite one.
Value sin(Value x, Where where = Where::here());
/// The cosine, as sin.
Value cos(Value x, Where where = Where::here());
/// The error function, 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x, within 3 units in the last place.
Value erf(Value x, Where where = Where::here());

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

/// y = ln(1 + e^x): a smooth relu. Nothing overflows: y is x where x is large; below -87.3 it is 0.
Value softplus(Value x, Where where = Where::here());
/// y = x tanh(softplus(x)), 0 below -87.3; NaN for -infinity. Source: Misra 2020.
Value mish(Value x, Where where = Where::here());
/// y = x min(max(x + 3, 0), 6) / 6. Its gradient is 0 up to -3 and 1 from 3 on. Source: Howard et al. 2019.
Value hard_swish(Value x, Where where = Where::here());

/// How steep leaky_relu is below 0.
struct LeakyReluOptions {
  float negative_slope = 0.01F;  ///< finite, >= 0
};
/// y = x > 0 ? x : negative_slope x, which is NaN at -infinity for the slope 0. Its gradient at 0 is that of below.
/// Throws: ArgumentError for another slope.
Value leaky_relu(Value x, LeakyReluOptions options = {}, Where where = Where::here());

/// What elu comes to far below 0.
struct EluOptions {
  float alpha = 1;  ///< finite, >= 0; y goes to -alpha
};
/// y = x > 0 ? x : alpha (e^x - 1). Its gradient, alpha at 0, is that of y: far below 0, where y is -alpha to the last
/// digit of its dtype, it is 0. Throws: ArgumentError for another alpha. Source:
/// Clevert et al. 2016.
Value elu(Value x, EluOptions options = {}, Where where = Where::here());

/// y = min(max(x, low), high), element by element; NaN stays NaN. The gradient passes where low <= x <= high.
/// Shapes: any; y like x. f32 or bf16. Throws: ArgumentError for another dtype, and unless low <= high.
Value clip(Value x, float low, float high, Where where = Where::here());

/// Whether x is neither infinite nor NaN. Shapes: any; result like x, boolean. f32 or bf16. No gradient.
Value is_finite(Value x, Where where = Where::here());

/// Not x. Shapes: any; result like x. Boolean. No gradient. Throws: ArgumentError for another dtype.
Value logical_not(Value x, Where where = Where::here());

/// x in another dtype, as C++ converts; floats towards zero, NaN and values out of range to 0; to boolean: x != 0.
/// Floats to bf16 go to the nearest, f64 by way of f32.
/// Shapes: any; result like x. The gradient of casts between f32, f64 and bf16 passes, that of others is none.
Value cast(Value x, Dtype dtype, Where where = Where::here());

}  // namespace sectionflow

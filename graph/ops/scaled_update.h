#pragma once

#include <string>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Updates whose step is scaled by norms of the whole variable. They change variables in place as those of
// graph/ops/update.h do. Gradients are f32 or bf16, which is widened; sums are taken in double, in an order that the
// shape alone decides. RMS(x) is the root of the mean of squares.

/// Of apply_lamb: those of AdamW.
struct LambOptions {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-6F;
  float weight_decay = 1e-2F;
};
/// With t = steps + 1: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay variable;
/// variable -= learning_rate |variable| / |u| u, where |x| is the root of the sum of squares over the whole variable,
/// and the quotient is 1 where either is 0.
/// Shapes: m, v variables and gradient like the variable; learning_rate [] f32; steps [] i64, the steps already taken.
/// Source: You et al. 2020, algorithm 2, with phi(z) = z. NVIDIA's FusedLAMB clips all gradients to a global norm of 1
/// before (UpdateOptions::clip_norm does), and scales only what decays unless told otherwise; TensorFlow Addons' LAMB
/// is this one.
Operation apply_lamb(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                     LambOptions options = {}, Where where = Where::here());

/// Of apply_adafactor.
struct AdafactorOptions {
  float decay_exponent = 0.8F;  ///< of t, by whose negative power an average takes what is new
  float epsilon = 0x1p-23F;     ///< the least root of an estimated square, and the least mean of rows
  float least_scale = 1e-3F;    ///< of the variable: as if its RMS were no smaller
  float clip = 1;               ///< the most that the RMS of a step is, before the rate
  float weight_decay = 0;       ///< the part of itself that a variable loses a step, times the learning rate
  /// Whether the rate is max(least_scale, RMS(variable)) min(learning_rate, 1 / sqrt(t)); else it is learning_rate.
  bool relative_step = true;
};
/// Of a variable [..., R, C], with t = steps + 1 and b = t^-decay_exponent:
/// rows = (1 - b) rows + b mean(g^2 over C); columns = (1 - b) columns + b mean(g^2 over R);
/// u = g / max(epsilon, sqrt(rows columns / max(epsilon, mean(rows over R))));
/// variable = variable (1 - learning_rate weight_decay) - rate u / max(1, RMS(u) / clip).
/// Shapes: rows a variable [..., R], columns a variable [..., C], gradient like the variable; learning_rate [] f32;
/// steps [] i64, the steps already taken. Throws: ShapeError for a variable of rank 0 or 1 too.
/// The last two axes are factored: of a kernel [in, out] or [height, width, in, out] input and output features.
/// Source: Shazeer and Stern 2018, with the epsilons of torch.optim.Adafactor.
Operation apply_adafactor(Value variable, Value rows, Value columns, Value gradient, Value learning_rate, Value steps,
                          AdafactorOptions options = {}, Where where = Where::here());
/// The same with all squares kept: squares = (1 - b) squares + b g^2; u = g / max(epsilon, sqrt(squares)).
/// Shapes: squares a variable and gradient like the variable, of any rank.
Operation apply_adafactor_by_squares(Value variable, Value squares, Value gradient, Value learning_rate, Value steps,
                                     AdafactorOptions options = {}, Where where = Where::here());

/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_lamb does so itself.
void check_options(const LambOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_adafactor does so itself.
void check_options(const AdafactorOptions& options, const std::string& label);

}  // namespace sectionflow

#pragma once

#include "graph/graph.h"

namespace sectionflow {

// Operations that change variables in place. Within one run an update happens after every other reader of the
// variable's old value; several updates of one variable happen in the order in which they were made.

/// variable = x. Shapes: x like the variable, of its dtype. Throws: ArgumentError when the first is no variable,
/// ShapeError.
Operation assign(Value variable, Value x, Where where = Where::here());
/// variable = variable + x. f32 or i64.
Operation assign_add(Value variable, Value x, Where where = Where::here());
/// variable = decay variable + (1 - decay) x, where `is_training`, a boolean placeholder or constant, is true; nothing
/// otherwise. f32. Throws: ArgumentError for a decay outside [0, 1] too.
Operation update_moving_average(Value variable, Value x, Value is_training, float decay, Where where = Where::here());

/// variable = variable - learning_rate gradient. Shapes: gradient like the variable; learning_rate []. f32.
Operation apply_sgd(Value variable, Value gradient, Value learning_rate, Where where = Where::here());

struct AdamOptions {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
};
/// With t = steps + 1: m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// variable -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + epsilon).
/// Shapes: m, v variables and gradient like the variable; learning_rate [] f32; steps [] i64, the steps already taken.
/// Source: Kingma and Ba 2015, the form before section 2.1.
Operation apply_adam(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                     AdamOptions options = {}, Where where = Where::here());

/// Options of the op "update_moving_average".
struct MovingAverageOptions {
  float decay = 0.999F;
};

}  // namespace sectionflow

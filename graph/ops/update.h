#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

// Operations that change variables in place. Within one run an update happens after every other reader of the
// variable's old value; several updates of one variable happen in the order in which they were made.

/// variable = x. Shapes: x like the variable, of its dtype. Throws: ArgumentError when the first is no variable,
/// ShapeError.
Operation assign(Value variable, Value x, Where where = Where::here());
/// variable = variable + x. f32 or i64.
Operation assign_add(Value variable, Value x, Where where = Where::here());
/// variable = decay variable + (1 - decay) x, where `is_training`, a boolean placeholder or constant, is true; nothing
/// otherwise. f32. Shapes: x like the variable, or with an axis before those of the variable, along which one x after
/// the other is taken. Throws: ArgumentError for a decay outside [0, 1] too.
Operation update_moving_average(Value variable, Value x, Value is_training, float decay, Where where = Where::here());
/// The same by the graph's training flag (Graph::training()).
Operation update_moving_average(Value variable, Value x, float decay, Where where = Where::here());

// Gradients of the following are f32 or bf16, which is widened; all else is f32 where nothing is said.

/// variable = variable - learning_rate gradient. Shapes: gradient like the variable; learning_rate [].
Operation apply_sgd(Value variable, Value gradient, Value learning_rate, Where where = Where::here());

/// Of apply_adam: how slowly the averages of the gradient and of its square forget, and what keeps the quotient finite.
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

/// Of apply_adam_w: those of Adam, and the part of itself that a variable loses a step, times the learning rate.
struct AdamWOptions {
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 1e-2F;
};
/// Adam with decoupled weight decay. With t = steps + 1: variable = variable (1 - learning_rate weight_decay);
/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// variable -= learning_rate / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon).
/// The decay moves neither m nor v. Shapes: as apply_adam.
/// Source: Loshchilov and Hutter 2019, with epsilon where torch.optim.AdamW has it.
Operation apply_adam_w(Value variable, Value m, Value v, Value gradient, Value learning_rate, Value steps,
                       AdamWOptions options = {}, Where where = Where::here());

/// Of apply_momentum: how slowly the velocity forgets, and whether the step looks ahead.
struct MomentumOptions {
  float momentum = 0.9F;
  bool nesterov = false;
};
/// velocity = momentum velocity + g; variable -= learning_rate velocity, or with `nesterov`
/// variable -= learning_rate (g + momentum velocity).
/// Shapes: velocity a variable and gradient like the variable; learning_rate [] f32.
/// Source: torch.optim.SGD without dampening; Sutskever et al. 2013 have the learning rate within the velocity.
Operation apply_momentum(Value variable, Value velocity, Value gradient, Value learning_rate,
                         MomentumOptions options = {}, Where where = Where::here());

/// Of apply_adagrad; `epsilon` keeps a variable without gradients so far from a division by zero.
struct AdagradOptions {
  float epsilon = 1e-10F;
};
/// sum = sum + g^2; variable -= learning_rate g / (sqrt(sum) + epsilon).
/// Shapes: sum a variable and gradient like the variable; learning_rate [] f32.
/// Source: Duchi, Hazan and Singer 2011, diagonal; torch.optim.Adagrad.
Operation apply_adagrad(Value variable, Value sum, Value gradient, Value learning_rate, AdagradOptions options = {},
                        Where where = Where::here());

/// Of apply_rms_prop: how slowly the average forgets, and what keeps the quotient finite.
struct RmsPropOptions {
  float decay = 0.99F;
  float epsilon = 1e-8F;
};
/// average = decay average + (1 - decay) g^2; variable -= learning_rate g / (sqrt(average) + epsilon).
/// Shapes: average a variable and gradient like the variable; learning_rate [] f32.
/// Source: Hinton 2012, lecture 6e; torch.optim.RMSprop without momentum, whose alpha is `decay`.
Operation apply_rms_prop(Value variable, Value average, Value gradient, Value learning_rate,
                         RmsPropOptions options = {}, Where where = Where::here());

/// Of apply_lion: how much of the step is the average of gradients, how slowly that average forgets, and the part of
/// itself that a variable loses a step, times the learning rate.
struct LionOptions {
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float weight_decay = 0;
};
/// variable = variable (1 - learning_rate weight_decay) - learning_rate sign(beta1 m + (1 - beta1) g), where the sign
/// of 0 is 0, then m = beta2 m + (1 - beta2) g. Shapes: m a variable and gradient like the variable; learning_rate []
/// f32. Source: Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2.
Operation apply_lion(Value variable, Value m, Value gradient, Value learning_rate, LionOptions options = {},
                     Where where = Where::here());

/// What an average of weights is of.
enum class Averaging {
  exponential,  ///< average = decay average + (1 - decay) variable
  uniform       ///< the mean of all that was taken: average += (variable - average) / (number taken before + 1)
};
/// How weights are averaged, and over which updates.
struct WeightAverageOptions {
  Averaging kind = Averaging::exponential;
  float decay = 0.999F;    ///< of the exponential average: how slowly it forgets
  std::int64_t start = 0;  ///< updates before the first that is taken; until then the average is the variable
  std::int64_t every = 1;  ///< of the updates from there on every such one is taken, the first included
};
/// Throws: ArgumentError (SF-E034) for numbers outside of their ranges, beginning with `label`.
void check_options(const WeightAverageOptions& options, const std::string& label);

/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_adam does so itself.
void check_options(const AdamOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_adam_w does so itself.
void check_options(const AdamWOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_momentum does so itself.
void check_options(const MomentumOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_adagrad does so itself.
void check_options(const AdagradOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_rms_prop does so itself.
void check_options(const RmsPropOptions& options, const std::string& label);
/// Throws: ArgumentError for numbers outside of their ranges, beginning with `label`; apply_lion does so itself.
void check_options(const LionOptions& options, const std::string& label);

/// Options of the op "update_moving_average".
struct MovingAverageOptions {
  float decay = 0.999F;
};

}  // namespace sectionflow

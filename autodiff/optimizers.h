#pragma once

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "autodiff/gradients.h"
#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// A number that is fixed, rounded to f32 (1e-3 and 1e-3F are the same), or a f32 scalar of the graph (a placeholder,
/// so that it can be fed).
class ScalarOrValue {
 public:
  template <class Number>
  requires std::is_arithmetic_v<Number> ScalarOrValue(Number number)  // NOLINT: `.learning_rate = 1e-3` reads well
      : content_(static_cast<float>(number)) {}
  ScalarOrValue(Value value) : content_(value) {}  // NOLINT

  /// Null where it is a value.
  const float* number() const { return std::get_if<float>(&content_); }
  /// Null where it is a number.
  const Value* value() const { return std::get_if<Value>(&content_); }

 private:
  std::variant<float, Value> content_;
};

/// variable -= learning_rate gradient.
struct Sgd {
  ScalarOrValue learning_rate = 1e-2;
};

/// How the slots of Adam and AdamW are kept.
enum class SlotStorage {
  /// Four bytes an element: `<variable>/adam_m` and `<variable>/adam_v`.
  f32,
  /// One byte an element and four for each block of 256, see graph/ops/eight_bit_update.h: `<variable>/adam_m_codes`,
  /// `adam_m_scales`, `adam_root_codes`, `adam_root_scales` (AdamW: adam_w_...). Dettmers et al. 2022.
  eight_bit
};

/// Kingma and Ba 2015; see apply_adam in graph/ops/update.h. Slots: two per variable, `<variable>/adam_m` and
/// `<variable>/adam_v`, and one step counter per optimiser.
struct Adam {
  ScalarOrValue learning_rate = 1e-3;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  SlotStorage slots = SlotStorage::f32;
};

/// Sgd with momentum; see apply_momentum. One slot per variable, `<variable>/momentum`. As torch.optim.SGD.
struct Momentum {
  ScalarOrValue learning_rate = 1e-2;
  float momentum = 0.9F;
  bool nesterov = false;
};

/// Duchi, Hazan and Singer 2011; see apply_adagrad. One slot per variable, `<variable>/adagrad_sum`, which begins with
/// `initial_sum`. As torch.optim.Adagrad.
struct Adagrad {
  ScalarOrValue learning_rate = 1e-2;
  float epsilon = 1e-10F;
  float initial_sum = 0;
};

/// Hinton 2012; see apply_rms_prop. One slot per variable, `<variable>/rms_prop_average`. As torch.optim.RMSprop, whose
/// alpha is `decay`.
struct RmsProp {
  ScalarOrValue learning_rate = 1e-2;
  float decay = 0.99F;
  float epsilon = 1e-8F;
};

/// Loshchilov and Hutter 2019; see apply_adam_w. All variables decay; groups spare some (ParameterGroup). Slots: two
/// per variable, `<variable>/adam_w_m` and `<variable>/adam_w_v`, and one step counter per optimiser. As
/// torch.optim.AdamW.
struct AdamW {
  ScalarOrValue learning_rate = 1e-3;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 1e-2F;
  SlotStorage slots = SlotStorage::f32;
};

/// Chen et al. 2023; see apply_lion. Each element moves by the learning rate, which is therefore three to ten times
/// smaller than AdamW's, and weight decay as much larger. One slot per variable, `<variable>/lion_m`.
struct Lion {
  ScalarOrValue learning_rate = 1e-4;
  float beta1 = 0.9F;
  float beta2 = 0.99F;
  float weight_decay = 0;
};

/// You et al. 2020; see apply_lamb in graph/ops/scaled_update.h. The step of each variable is as long as the variable,
/// times the learning rate. Slots: two per variable, `<variable>/lamb_m` and `<variable>/lamb_v`, and one step counter
/// per optimiser. Biases and norms are better left to AdamW in a group of their own.
struct Lamb {
  ScalarOrValue learning_rate = 1e-3;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-6F;
  float weight_decay = 1e-2F;
};

/// Shazeer and Stern 2018; see apply_adafactor. Slots of a variable [..., R, C]: `<variable>/adafactor_rows` [..., R]
/// and `<variable>/adafactor_columns` [..., C]; of a vector or scalar: `<variable>/adafactor_squares`, like the
/// variable. One step counter per optimiser. As torch.optim.Adafactor.
struct Adafactor {
  ScalarOrValue learning_rate = 1e-2;  ///< with relative_step the most that the relative step is
  float decay_exponent = 0.8F;         ///< torch's beta2_decay without its sign
  float epsilon = 0x1p-23F;            ///< torch's eps[0]; that of f32
  float least_scale = 1e-3F;           ///< torch's eps[1]
  float clip = 1;                      ///< torch's d
  float weight_decay = 0;
  bool relative_step = true;
};

using Optimizer = std::variant<Sgd, Adam, Momentum, Adagrad, RmsProp, AdamW, Lion, Lamb, Adafactor>;

/// Gradients of the loss for `variables`, or for all trainable variables where that is empty.
/// Throws: as gradients(); ArgumentError when the graph has no trainable variable.
std::vector<GradientAndVariable> compute_gradients(Value loss, std::vector<Value> variables = {},
                                                   Where where = Where::here());

/// Adds the operations that apply gradients, one a pair, each in the group of its variable, and those that advance the
/// optimiser itself. All go to the collection "training_operations" and are returned. Where a gradient is what
/// gradients() has widened from bf16, its update reads what was widened: edges that are given to the cast later do not
/// come before the update.
/// Throws: ShapeError when a gradient is not like its variable, or the learning rate no f32 scalar; ArgumentError for a
/// pair without gradient, a variable named twice, values of several graphs, no pair at all, or numbers of the optimiser
/// outside their ranges.
std::vector<Operation> apply_gradients(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients,
                                       Where where = Where::here());

/// compute_gradients and apply_gradients in one, for training the whole graph: the operations are targets of
/// Session::run, with those of the collection kUpdateOperations where moving averages are to follow (docs/layers.md).
/// Cycles over sections run what GraphSectionManager::add_training_ops adds, and nothing of this.
std::vector<Operation> minimize(const Optimizer& optimizer, Value loss, std::vector<Value> variables = {},
                                Where where = Where::here());

/// What clip_by_global_norm gives.
struct ClippedGradients {
  std::vector<GradientAndVariable> gradients;
  Value norm;  ///< [] f32, of all gradients before clipping
};

/// Scales all gradients by max_norm / max(norm, max_norm), where norm = sqrt(sum of squares over all of them): together
/// they are then no longer than max_norm, and where they were not, they keep their bits. Where the norm is infinite or
/// NaN, all become NaN. Each clipped gradient takes the group of its variable.
/// The norm needs every gradient before the first update: all gradients, together the size of the variables, stay in
/// device memory until the last of them is there.
/// Throws: as apply_gradients for the pairs; ArgumentError unless max_norm is positive and finite.
/// Source: TensorFlow's clip_by_global_norm (torch.nn.utils.clip_grad_norm_ has max_norm / (norm + 1e-6) instead).
ClippedGradients clip_by_global_norm(const std::vector<GradientAndVariable>& gradients, float max_norm,
                                     Where where = Where::here());

}  // namespace sectionflow

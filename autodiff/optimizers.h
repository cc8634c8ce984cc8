#pragma once

#include <string>
#include <variant>
#include <vector>

#include "autodiff/gradients.h"
#include "graph/graph.h"

namespace sectionflow {

/// A number that is fixed, or a f32 scalar of the graph (a placeholder, so that it can be fed).
using ScalarOrValue = std::variant<float, Value>;

/// variable -= learning_rate gradient.
struct Sgd {
  ScalarOrValue learning_rate = 1e-2F;
};

/// Kingma and Ba 2015; see apply_adam in graph/ops/update.h. Slots: two per variable, `<variable>/adam_m` and
/// `<variable>/adam_v`, and one step counter per optimiser.
struct Adam {
  ScalarOrValue learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
};

using Optimizer = std::variant<Sgd, Adam>;

/// Gradients of the loss for `variables`, or for all trainable variables where that is empty.
/// Throws: as gradients(); ArgumentError when the graph has no trainable variable.
std::vector<GradientAndVariable> compute_gradients(Value loss, std::vector<Value> variables = {});

/// Adds the operations that apply gradients, one a pair, each in the group of its variable, and those that advance the
/// optimiser itself. All go to the collection "training_operations" and are returned.
/// Throws: ShapeError when a gradient is not like its variable, or the learning rate no f32 scalar; ArgumentError for a
/// pair without gradient, a variable named twice, values of several graphs, or no pair at all.
std::vector<Operation> apply_gradients(const Optimizer& optimizer, const std::vector<GradientAndVariable>& gradients);

/// compute_gradients and apply_gradients in one.
std::vector<Operation> minimize(const Optimizer& optimizer, Value loss, std::vector<Value> variables = {});

}  // namespace sectionflow

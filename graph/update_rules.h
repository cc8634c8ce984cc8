#pragma once

#include <any>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"

namespace sectionflow {

// What the shape rules of updates share. Input 0 is the variable. Throws: ShapeError or ArgumentError that begins with
// the request's label.

void check_f32_variable(const ShapeRequest& request);
/// Of the inputs `others`: shape and dtype are the variable's.
void check_like_variable(const ShapeRequest& request, std::initializer_list<int> others);
/// A gradient is like its variable; it may be stored as bf16, as what a cast of the variable leads to is.
void check_gradient(const ShapeRequest& request, int index);
void check_scalar(const ShapeRequest& request, int index, Dtype dtype, std::string_view what);

/// A decay of an average: 0 to 1, less than 1.
void check_decay(float decay, const char* name, const std::string& label);
void check_not_negative(float number, const char* name, const std::string& label);

/// Lets an update take two inputs more than its own: see UpdateConditions.
void add_conditional(OpRegistry& registry, OpDef op);

/// What tells one optimiser's update from another. Inputs: the variable, its slots, the gradient, the learning rate
/// and, where it `counts`, the steps already taken.
struct OptimizerUpdate {
  const char* name;
  int num_slots = 0;
  bool counts = false;
  std::vector<LeftByUpdate> left{};  ///< as OpDef::left_by_update
  /// Of the slots' types; absent: each is like the variable.
  void (*check_slots)(const ShapeRequest&) = nullptr;
};
/// `check`: of the options, if it has any.
void add_optimizer_update(OpRegistry& registry, const OptimizerUpdate& update, OptionsDescription options = {},
                          void (*check)(const ShapeRequest&) = nullptr);
/// The same with options that check_options knows, by `describe(fields, options)`.
template <class Options, class Describe>
void add_optimizer_update(OpRegistry& registry, const OptimizerUpdate& update, Describe describe) {
  add_optimizer_update(registry, update, described_by<Options>(describe),
                       [](const ShapeRequest& request) { check_options(request.get<Options>(), request.label); });
}

/// The fields of options of Adam's kind, as a `describe`.
inline constexpr auto describe_moments = [](auto& fields, auto& options) {
  fields("beta1", options.beta1);
  fields("beta2", options.beta2);
  fields("epsilon", options.epsilon);
  if constexpr (requires { options.weight_decay; }) fields("weight_decay", options.weight_decay);
};

/// The node of an update whose first `num_variables` inputs must be variables.
Operation add_update(std::string_view op, std::vector<Value> inputs, std::size_t num_variables, std::any options,
                     Where where);

}  // namespace sectionflow

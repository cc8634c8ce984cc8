#pragma once

#include <any>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/op_registry.h"

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

/// The node of an update whose first `num_variables` inputs must be variables.
Operation add_update(std::string_view op, std::vector<Value> inputs, std::size_t num_variables, std::any options,
                     Where where);

}  // namespace sectionflow

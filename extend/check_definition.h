#pragma once

#include <string>

#include "autodiff/gradient_registry.h"
#include "graph/op_def.h"

namespace sectionflow {

// What register_family asks of an op, each by itself.

/// Throws: ArgumentError (SF-E013) unless the name is of the form "library.op".
void check_outside_name(const std::string& name);

/// Throws: ArgumentError (SF-E013) for a definition without a shape rule, or whose traits do not go together, name
/// inputs or outputs that cannot be, or are for the library alone.
void check_definition(const OpDef& op);

/// Throws: ArgumentError (SF-E013) for traits that name inputs which the op cannot have.
void check_gradient_traits(const OpDef& op, const GradientTraits& traits);

}  // namespace sectionflow

#pragma once

#include <string>

#include "base/export.h"
#include "graph/value.h"

namespace SF_API sectionflow {

// What losses take. `call` begins the texts of errors, `role` says which of its inputs it is.

/// "targets 't' are f32[4]"
std::string told(const char* role, Value x);

/// Throws: ArgumentError for what are no floats.
void check_floats(const char* call, const char* role, Value x);
/// The same, and x in f32.
Value float_operand(const char* call, const char* role, Value x);
/// The same of what may be boolean: 0 and 1.
Value truth_operand(const char* call, const char* role, Value x);

/// Throws: ShapeError unless `part` broadcasts to `whole`, and not beyond, values of these roles. Unknown dimensions
/// meet themselves.
void check_part(const char* call, const char* whole_role, Value whole, const char* part_role, Value part);
/// `part`, which broadcasts to `whole` as far as is known. Where the feed decides a dimension it is held to that then.
Value held_to(Value part, Value whole);

/// Throws: ArgumentError unless low <= option <= high; NaN is not.
void check_option(const char* call, const char* name, float option, float low, float high);
/// Throws: ArgumentError unless the option is finite and not negative.
void check_not_negative(const char* call, const char* name, float option);
/// Throws: ArgumentError for a length whose square, or the third power of whose reciprocal, leaves the range of f32.
void check_length(const char* call, float epsilon);

}  // namespace sectionflow

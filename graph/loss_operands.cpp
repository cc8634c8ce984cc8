#include "graph/loss_operands.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/nodes/layout.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Whether `part` broadcasts to `whole`, and not beyond. Unknown dimensions meet themselves.
bool is_part_of(const Shape& part, const Shape& whole) {
  if (part.rank() > whole.rank()) return false;
  for (int axis = -part.rank(); axis < 0; ++axis) {
    if (part[axis] != whole[axis] && part[axis] != 1) return false;
  }
  return true;
}

/// What to do about a part that does not fit, in the words of the roles.
std::string advice(const char* whole_role, const Shape& whole, const char* part_role, const Shape& part) {
  const auto begins_as = [](const Shape& longer, const Shape& shorter) {
    return longer.rank() == shorter.rank() + 1 &&
           std::equal(shorter.dims().begin(), shorter.dims().end(), longer.dims().begin());
  };
  if (begins_as(whole, part)) return text_of("expand_dims(", part_role, ", -1) gives them a last axis");
  if (begins_as(part, whole) && part[-1] == 1) return text_of("squeeze(", part_role, ", {-1}) takes the last axis");
  if (part.is_static() && whole.is_static()) return {};
  return text_of("a size that the feed decides goes with one that it decides: give the placeholders of ", whole_role,
                 " and ", part_role, " the same sizes");
}

}  // namespace

std::string told(const char* role, Value x) {
  return text_of(role, " '", x.name(), "' are ", x.type().text());
}

void check_floats(const char* call, const char* role, Value x) {
  SF_CHECK(is_f32_or_bf16(x.dtype()), ArgumentError, call, ": ", told(role, x), "; wanted f32 or bf16",
           hint("cast them"));
}
Value float_operand(const char* call, const char* role, Value x) {
  check_floats(call, role, x);
  return in_dtype(x, Dtype::f32);
}
Value truth_operand(const char* call, const char* role, Value x) {
  SF_CHECK(is_f32_or_bf16(x.dtype()) || x.dtype() == Dtype::boolean, ArgumentError, call, ": ", told(role, x),
           "; wanted f32, bf16 or boolean", hint("cast them"));
  return in_dtype(x, Dtype::f32);
}

void check_part(const char* call, const char* whole_role, Value whole, const char* part_role, Value part) {
  SF_CHECK(is_part_of(part.shape(), whole.shape()), ShapeError, call, ": ", told(whole_role, whole), ", ",
           told(part_role, part), "; wanted ", part_role, " of the shape of the ", whole_role,
           ", or that broadcast to it", hint(advice(whole_role, whole.shape(), part_role, part.shape())));
}

void check_option(const char* call, const char* name, float option, float low, float high) {
  SF_CHECK(option >= low && option <= high, ArgumentError, call, ": ", name, " is ", option, "; wanted ", low, " to ",
           high);
}
void check_not_negative(const char* call, const char* name, float option) {
  SF_CHECK(option >= 0 && std::isfinite(option), ArgumentError, call, ": ", name, " is ", option,
           "; wanted a finite number, 0 or more");
}
void check_length(const char* call, float epsilon) {
  check_option(call, "epsilon", epsilon, 1e-12F, 1e12F);
}

Value held_to(Value part, Value whole) {
  const bool is_known = part.shape().is_static() && whole.shape().is_static();
  return is_known ? part : broadcast_like(part, whole);
}

}  // namespace sectionflow

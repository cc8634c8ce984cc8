#include "graph/ops/compare.h"

#include "graph/elementwise.h"
#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_comparison(const ShapeRequest& request) {
  return {{Dtype::boolean, infer_broadcast(request)[0].shape}};
}

Value comparison(std::string_view op, Value a, Value b, Where where) {
  return a.graph().add_node(op, {a, b}, {}, op, where).output();
}

}  // namespace

void define_compare_ops(OpRegistry& registry) {
  for (const char* name : {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}) {
    registry.add({.name = name, .inputs = 2, .infer = infer_comparison});
  }
}

Value equal(Value a, Value b, Where where) {
  return comparison("equal", a, b, where);
}
Value not_equal(Value a, Value b, Where where) {
  return comparison("not_equal", a, b, where);
}
Value less(Value a, Value b, Where where) {
  return comparison("less", a, b, where);
}
Value less_equal(Value a, Value b, Where where) {
  return comparison("less_equal", a, b, where);
}
Value greater(Value a, Value b, Where where) {
  return comparison("greater", a, b, where);
}
Value greater_equal(Value a, Value b, Where where) {
  return comparison("greater_equal", a, b, where);
}

}  // namespace sectionflow

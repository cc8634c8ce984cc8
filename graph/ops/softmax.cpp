#include "graph/ops/softmax.h"

#include "graph/elementwise.h"
#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_softmax(const ShapeRequest& request) {
  SF_CHECK(request.inputs[0].shape.rank() >= 1, ShapeError, request.label, " got ", request.inputs[0].text(),
           "; wanted [..., C]");
  return infer_like_float(request);
}

}  // namespace

void define_softmax_ops(OpRegistry& registry) {
  for (const std::string name : {"softmax", "log_softmax"}) {
    registry.add({.name = name, .infer = infer_softmax});
    registry.add({.name = name + "_grad", .inputs = 2, .infer = infer_gradient_of_one});
  }
}

Value softmax(Value x, Where where) {
  return x.graph().add_node("softmax", {x}, {}, "softmax", where).output();
}
Value log_softmax(Value x, Where where) {
  return x.graph().add_node("log_softmax", {x}, {}, "log_softmax", where).output();
}
Value softmax_grad(Value dy, Value y) {
  return y.graph().add_node("softmax_grad", {dy, y}, {}, "softmax_grad").output();
}
Value log_softmax_grad(Value dy, Value y) {
  return y.graph().add_node("log_softmax_grad", {dy, y}, {}, "log_softmax_grad").output();
}

}  // namespace sectionflow

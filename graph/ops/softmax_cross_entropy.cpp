#include "graph/ops/softmax_cross_entropy.h"

#include "graph/op_registry.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_forward(const ShapeRequest& request) {
  const TensorType& logits = request.inputs[0];
  const TensorType& labels = request.inputs[1];
  SF_CHECK(logits.dtype == Dtype::f32 && logits.shape.rank() == 2, ShapeError, request.label, " got logits ",
           logits.text(), "; wanted f32 [N, C]");
  SF_CHECK(logits.shape[1] != 0, ShapeError, request.label, " got logits ", logits.text(), "; wanted a class at least");
  const bool one_hot = labels.dtype == Dtype::f32 && labels.shape == logits.shape;
  const bool classes =
      (labels.dtype == Dtype::i32 || labels.dtype == Dtype::i64) && labels.shape == Shape{logits.shape[0]};
  SF_CHECK(one_hot || classes, ShapeError, request.label, " got logits ", logits.text(), " and labels ", labels.text(),
           "; wanted class numbers i32 or i64 ", Shape{logits.shape[0]}, ", or probabilities f32 ", logits.shape);
  return {{Dtype::f32, {logits.shape[0]}}, logits};
}

}  // namespace

void define_softmax_cross_entropy_ops(OpRegistry& registry) {
  registry.add({.name = "softmax_cross_entropy", .infer = infer_forward});
  registry.add({.name = "softmax_cross_entropy_grad", .infer = [](const ShapeRequest& r) {
                  const auto types = infer_forward(r);
                  SF_CHECK(may_agree(r.inputs[2], types[0]), ShapeError, r.label, " got probabilities ",
                           r.inputs[0].text(), " and dloss ", r.inputs[2].text(), "; wanted ", types[0].text());
                  return std::vector{r.inputs[0]};
                }});
}

Value softmax_cross_entropy(Value logits, Value labels, Where where) {
  return logits.graph()
      .add_node("softmax_cross_entropy", {logits, labels}, {}, "softmax_cross_entropy", where)
      .output();
}
Value softmax_cross_entropy_grad(Value probabilities, Value labels, Value dloss) {
  return dloss.graph()
      .add_node("softmax_cross_entropy_grad", {probabilities, labels, dloss}, {}, "softmax_cross_entropy_grad")
      .output();
}

}  // namespace sectionflow

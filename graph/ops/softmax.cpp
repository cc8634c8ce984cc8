#include "graph/ops/softmax.h"

#include <algorithm>
#include <span>
#include <utility>

#include "graph/nodes/softmax.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

std::vector<TensorType> infer_softmax(const ShapeRequest& request) {
  SF_CHECK(request.inputs[0].shape.rank() >= 1, ShapeError, request.label, " got ", request.inputs[0].text(),
           "; wanted [..., C]");
  return infer_like_float(request);
}

void check_labels(const ShapeRequest& request, const TensorType& logits, const TensorType& labels) {
  SF_CHECK(
      is_floating(logits.dtype) && logits.shape.rank() == 2, ShapeError, request.label, " got logits ", logits.text(),
      "; wanted f32 or bf16 [N, C]",
      hint(logits.shape.rank() > 2 ? "lay the rows of all axes below each other: reshape(logits, {kDynamic, C}), and "
                                     "reshape(labels, {kDynamic}) for class numbers"
                                   : ""));
  SF_CHECK(logits.shape[1] != 0, ShapeError, request.label, " got logits ", logits.text(), "; wanted a class at least");
  const bool one_hot = may_agree(labels, {Dtype::f32, logits.shape});
  const Shape per_row{logits.shape[0]};
  const bool classes = may_agree(labels, {Dtype::i32, per_row}) || may_agree(labels, {Dtype::i64, per_row});
  SF_CHECK(one_hot || classes, ShapeError, request.label, " got logits ", logits.text(), " and labels ", labels.text(),
           "; wanted class numbers i32 or i64 ", per_row, ", or probabilities f32 ", logits.shape);
}

void check_options(const ShapeRequest& request, const TensorType& logits, std::span<const TensorType> weights) {
  const float smoothing = request.get<SoftmaxCrossEntropyNodeOptions>().label_smoothing;
  SF_CHECK(smoothing >= 0 && smoothing <= 1, ArgumentError, request.label, " got label_smoothing ", smoothing,
           "; wanted a part of 1; try 0.1");
  if (weights.empty()) return;
  SF_CHECK(weights[0].dtype == Dtype::f32 && weights[0].shape == Shape{logits.shape[1]}, ShapeError, request.label,
           " got logits ", logits.text(), " and class_weights ", weights[0].text(), "; wanted f32 ",
           Shape{logits.shape[1]});
}

/// Inputs: logits, labels, perhaps class weights.
std::vector<TensorType> infer_cross_entropy(const ShapeRequest& request) {
  const TensorType& logits = request.inputs[0];
  check_labels(request, logits, request.inputs[1]);
  check_options(request, logits, request.inputs.subspan(2));
  return {{Dtype::f32, {logits.shape[0]}}, {Dtype::f32, {logits.shape[0], 2}}};
}

/// Inputs: dloss, statistics, then those of the forward op.
std::vector<TensorType> infer_cross_entropy_grad(const ShapeRequest& request) {
  const TensorType& logits = request.inputs[2];
  check_labels(request, logits, request.inputs[3]);
  check_options(request, logits, request.inputs.subspan(4));
  const TensorType dloss{Dtype::f32, {logits.shape[0]}}, statistics{Dtype::f32, {logits.shape[0], 2}};
  SF_CHECK(may_agree(request.inputs[0], dloss) && may_agree(request.inputs[1], statistics), ShapeError, request.label,
           " got logits ", logits.text(), ", dloss ", request.inputs[0].text(), " and statistics ",
           request.inputs[1].text(), "; wanted ", dloss.text(), " and ", statistics.text());
  return {logits};
}

/// The first `num_rows` inputs have their numbers row by row; class weights are for all.
RowParts cross_entropy_parts(const ConcreteRequest& request, std::size_t num_rows) {
  RowParts parts{.inputs = std::vector(request.inputs.size(), PartUse::whole),
                 .outputs = std::vector(request.outputs.size(), PartUse::rows)};
  std::fill_n(parts.inputs.begin(), num_rows, PartUse::rows);
  return parts;
}

Value add_node(std::string_view op, std::vector<Value> inputs, const SoftmaxCrossEntropyOptions& options, Where where) {
  if (options.class_weights.valid()) inputs.push_back(options.class_weights);
  Graph& graph = inputs[0].graph();
  return graph
      .add_node(op, std::move(inputs), SoftmaxCrossEntropyNodeOptions{.label_smoothing = options.label_smoothing}, op,
                where)
      .output();
}

}  // namespace

void define_softmax_ops(OpRegistry& registry) {
  for (const std::string name : {"softmax", "log_softmax"}) {
    registry.add({.name = name, .infer = infer_softmax, .parts = parts_of_rows});
    registry.add({.name = name + "_grad", .inputs = 2, .infer = infer_gradient_of_one, .parts = parts_of_rows});
  }
  const OptionsDescription options = described_by<SoftmaxCrossEntropyNodeOptions>(
      [](auto& fields, auto& described) { fields("label_smoothing", described.label_smoothing); });
  registry.add({.name = "softmax_cross_entropy",
                .inputs = {2, 3},
                .options = options,
                .infer = infer_cross_entropy,
                .parts = [](const ConcreteRequest& r) { return cross_entropy_parts(r, 2); },
                .kept_outputs = {1}});
  registry.add({.name = "softmax_cross_entropy_grad",
                .inputs = {4, 5},
                .options = options,
                .infer = infer_cross_entropy_grad,
                .parts = [](const ConcreteRequest& r) { return cross_entropy_parts(r, 4); }});
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

Value softmax_cross_entropy(Value logits, Value labels, SoftmaxCrossEntropyOptions options, Where where) {
  return add_node("softmax_cross_entropy", {logits, labels}, options, where);
}
Value softmax_cross_entropy_grad(Value dloss, Value statistics, Value logits, Value labels,
                                 const SoftmaxCrossEntropyOptions& options) {
  return add_node("softmax_cross_entropy_grad", {dloss, statistics, logits, labels}, options, {});
}

}  // namespace sectionflow

#include "graph/ops/ctc_loss.h"

#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

void check_whole_numbers(const ShapeRequest& request, std::size_t input, const char* role, const Shape& wanted) {
  const TensorType& type = request.inputs[input];
  SF_CHECK(type.dtype == Dtype::i32 || type.dtype == Dtype::i64, ArgumentError, request.label, ": ", role, " are ",
           type.text(), "; wanted i32 or i64; try cast");
  SF_CHECK(may_agree(type, {type.dtype, wanted}), ShapeError, request.label, ": ", role, " are ", type.text(),
           "; wanted ", wanted);
}

/// Inputs from `first` on: logits, labels, input lengths, label lengths.
void check_ctc_inputs(const ShapeRequest& request, std::size_t first) {
  const TensorType& logits = request.inputs[first];
  check_f32_or_bf16(logits, request.label);
  SF_CHECK(logits.shape.rank() == 3, ShapeError, request.label, ": logits are ", logits.text(),
           "; wanted [N, T, C], the batch first", hint("transpose(x, {1, 0, 2}) makes it of [T, N, C]"));
  const TensorType& labels = request.inputs[first + 1];
  SF_CHECK(labels.shape.rank() == 2, ShapeError, request.label, ": labels are ", labels.text(),
           "; wanted [N, S], padded to the longest");
  check_whole_numbers(request, first + 1, "labels", {logits.shape[0], labels.shape[1]});
  check_whole_numbers(request, first + 2, "input lengths", {logits.shape[0]});
  check_whole_numbers(request, first + 3, "label lengths", {logits.shape[0]});
  const std::int64_t blank = request.get<CtcLossOptions>().blank, classes = logits.shape[2];
  SF_CHECK(blank >= 0 && (classes == kDynamic || blank < classes), ArgumentError, request.label, ": blank is ", blank,
           " and logits are ", logits.text(), "; wanted the number of a class");
}

// Inputs: logits, labels, input lengths, label lengths.
std::vector<TensorType> infer_ctc_loss(const ShapeRequest& request) {
  check_ctc_inputs(request, 0);
  const Shape& logits = request.inputs[0].shape;
  return {{Dtype::f32, {logits[0]}}, {Dtype::f32, {logits[0], logits[1], 2}}};
}

// Inputs: dloss, statistics, logits, labels, input lengths, label lengths.
std::vector<TensorType> infer_ctc_loss_grad(const ShapeRequest& request) {
  check_ctc_inputs(request, 2);
  const Shape& logits = request.inputs[2].shape;
  const TensorType wanted[] = {{Dtype::f32, {logits[0]}}, {Dtype::f32, {logits[0], logits[1], 2}}};
  for (const std::size_t input : {0, 1}) {
    SF_CHECK(may_agree(request.inputs[input], wanted[input]), ShapeError, request.label, " got logits ", logits,
             " and, as input ", input, ", ", request.inputs[input].text(), "; wanted ", wanted[input].text());
  }
  return {request.inputs[2]};
}

std::optional<RowParts> ctc_loss_parts(const ConcreteRequest& request) {
  return RowParts{.inputs = std::vector(request.inputs.size(), PartUse::rows),
                  .outputs = std::vector(request.outputs.size(), PartUse::rows)};
}

}  // namespace

void define_ctc_loss_ops(OpRegistry& registry) {
  const OptionsDescription options = described_by<CtcLossOptions>([](auto& fields, auto& described) {
    fields("blank", described.blank);
    fields("zero_infinity", described.zero_infinity);
  });
  registry.add({.name = "ctc_loss",
                .inputs = 4,
                .options = options,
                .infer = infer_ctc_loss,
                .parts = ctc_loss_parts,
                .kept_outputs = {1}});
  registry.add({.name = "ctc_loss_grad",
                .inputs = 6,
                .options = options,
                .infer = infer_ctc_loss_grad,
                .parts = ctc_loss_parts});
}

Value ctc_loss(Value logits, Value labels, Value input_lengths, Value label_lengths, CtcLossOptions options,
               Where where) {
  return logits.graph()
      .add_node("ctc_loss", {logits, labels, input_lengths, label_lengths}, options, "ctc_loss", where)
      .output();
}

Value ctc_loss_grad(Value dloss, Value statistics, Value logits, Value labels, Value input_lengths, Value label_lengths,
                    CtcLossOptions options) {
  return logits.graph()
      .add_node("ctc_loss_grad", {dloss, statistics, logits, labels, input_lengths, label_lengths}, options,
                "ctc_loss_grad")
      .output();
}

}  // namespace sectionflow

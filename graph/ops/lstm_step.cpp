#include "graph/ops/lstm_step.h"

#include "graph/nodes/lstm_step.h"
#include "graph/op_registry.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Throws: ShapeError unless input `of_four` has four numbers for each of input `of_one`.
void check_quarters(const ShapeRequest& request, std::size_t of_four, std::size_t of_one) {
  const TensorType &four = request.inputs[of_four], &one = request.inputs[of_one];
  std::vector<std::int64_t> dims = one.shape.dims();
  if (!dims.empty() && dims.back() != kDynamic) dims.back() *= 4;
  const bool has_quarters = !dims.empty() && may_agree(four, {four.dtype, Shape(dims)}) &&
                            (four.shape[-1] == kDynamic || four.shape[-1] % 4 == 0);
  SF_CHECK(has_quarters, ShapeError, request.label, " got ", four.text(), " and ", one.text(),
           "; wanted [..., 4 H] and [..., H]");
}

std::vector<TensorType> infer_lstm_step(const ShapeRequest& request) {
  (void)check_f32_or_bf16(request);
  check_quarters(request, 0, 1);
  return {request.inputs[1], request.inputs[1], request.inputs[0]};
}

// Inputs: the gradients of output and cell', gates, cell, cell'.
std::vector<TensorType> infer_lstm_step_grad(const ShapeRequest& request) {
  (void)check_f32_or_bf16(request);
  check_quarters(request, 2, 3);
  const TensorType& cell = request.inputs[3];
  for (const std::size_t like_cell : {0U, 1U, 4U}) {
    const TensorType& input = request.inputs[like_cell];
    SF_CHECK(may_agree(input, cell), ShapeError, request.label, ": input ", like_cell, " is ", input.text(),
             "; wanted it like the cell, ", cell.text());
  }
  return {request.inputs[2], cell};
}

}  // namespace

void define_lstm_step_ops(OpRegistry& registry) {
  registry.add({.name = "lstm_step", .inputs = 2, .infer = infer_lstm_step, .parts = parts_of_rows});
  registry.add({.name = "lstm_step_grad", .inputs = 5, .infer = infer_lstm_step_grad, .parts = parts_of_rows});
}

LstmStep lstm_step(Value sums, Value cell, Where where) {
  Node& node = sums.graph().add_node("lstm_step", {sums, cell}, {}, "lstm_step", where);
  return {.output = node.output(0), .cell = node.output(1), .gates = node.output(2)};
}

LstmStepGradients lstm_step_grad(Value doutput, Value dcell_after, Value gates, Value cell, Value cell_after) {
  Node& node =
      gates.graph().add_node("lstm_step_grad", {doutput, dcell_after, gates, cell, cell_after}, {}, "lstm_step_grad");
  return {.dsums = node.output(0), .dcell = node.output(1)};
}

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What lstm_step gives. Shapes: as its operands.
struct LstmStep {
  Value output, cell;
  Value gates;  ///< of sums: sigmoid of the first, second and fourth quarter, tanh of the third
};
/// One step of an LSTM behind its products: with (i, f, g, o) the quarters of the last axis of `sums`,
///
///     cell' = sigmoid(f) cell + sigmoid(i) tanh(g),  output = sigmoid(o) tanh(cell').
///
/// lstm and lstm_cell (graph/recurrent.h) are layers of it. Shapes: sums [..., 4 H], cell [..., H]. f32 or bf16, each
/// result rounded once. Throws: ShapeError, ArgumentError for other dtypes.
LstmStep lstm_step(Value sums, Value cell, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include "base/export.h"
#include "graph/ops/lstm_step.h"

namespace SF_API sectionflow {

/// The gradients of lstm_step's operands.
struct LstmStepGradients {
  Value dsums, dcell;
};
/// From the gradients of output and cell', and what lstm_step has read and made. Shapes: doutput, dcell_after, cell and
/// cell_after [..., H], gates and dsums [..., 4 H], dcell [..., H].
LstmStepGradients lstm_step_grad(Value doutput, Value dcell_after, Value gates, Value cell, Value cell_after);

}  // namespace sectionflow

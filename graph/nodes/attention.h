#pragma once

#include "base/export.h"
#include "graph/ops/attention.h"

namespace SF_API sectionflow {

/// The gradients of attention's inputs, shaped like them.
struct AttentionGradients {
  Value dq, dk, dv;
};
/// `log_sums`: the second output of the forward op.
AttentionGradients attention_grad(Value dy, Value q, Value k, Value v, Value log_sums, AttentionOptions options);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// A class of a row of logits, and what softmax gives it of that row.
struct ClassShare {
  std::int64_t label = 0;
  double share = 0;  ///< from 0 to 1
};

/// The `count` classes with the largest logits of each row, the largest first; all where there are fewer. Of equal
/// logits the lower class comes first, as argmax takes it.
/// Shapes: logits [..., C] f32 or bf16; result: one a row, in their order. Throws: ArgumentError for a count below 1,
/// other dtypes, and a row with a NaN or without a largest finite logit; ShapeError for a scalar or C = 0.
std::vector<std::vector<ClassShare>> top_classes(const HostTensor& logits, std::int64_t count,
                                                 Where where = Where::here());

}  // namespace sectionflow

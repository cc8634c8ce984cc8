#pragma once

#include <cstdint>

#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

/// How classes are drawn. Each restriction is made of what those before it leave, in the order in which they stand
/// here.
struct SampleOptions {
  /// Logits are divided by it: below 1 what is likely becomes likelier. Finite, >= 0; at 0 the largest is taken always.
  double temperature = 1;
  /// Only the k largest logits are drawn of; 0: all.
  std::int64_t top_k = 0;
  /// In (0, 1]: only the largest are drawn of, as few as together have this probability at least (Holtzman et al.
  /// 2020).
  double top_p = 1;
  std::uint64_t seed = 0;
};

/// Draws a class of each row of logits, of the probabilities softmax(logits / temperature) and what restricts them: the
/// next token of a language model. What comes out is a function of logits, options, the number of the row and `draw`
/// alone, so that a text is the same again; take another number for each draw. Of equal logits that of the lower class
/// counts as larger. A logit of -infinity is impossible; those of +infinity share what there is.
/// Shapes: logits [..., C] f32 or bf16; result [...] i32, which is fed as the next tokens. Throws: ArgumentError for
/// options out of their range, other dtypes, NaN, and a row in which nothing is possible; ShapeError for a scalar or C
/// = 0.
HostTensor sample(const HostTensor& logits, const SampleOptions& options, std::uint64_t draw);

}  // namespace sectionflow

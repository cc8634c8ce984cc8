#pragma once

#include <optional>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Where the queries of causal attention stand among keys that are not as many.
enum class CausalAlignment {
  equal,      ///< nowhere else: there are as many queries as keys, and anything else is refused
  first_key,  ///< the first query stands at the first key: query t sees the keys 0 to t
  last_key    ///< the last query stands at the last key, as behind a cache of keys: t sees the keys 0 to S - T + t
};

/// Which keys a query sees, and what the products are multiplied by.
struct AttentionOptions {
  bool causal = false;                                 ///< a query sees the keys up to its own place alone
  CausalAlignment alignment = CausalAlignment::equal;  ///< of causal attention
  std::optional<float> scale{};  ///< of the products of queries and keys; 1 / sqrt(D) where absent
};

/// Scaled dot product attention: y = softmax(scale q k^T) v for every head, where the softmax runs over the keys that a
/// query sees. The probabilities [N, H, T, S] are never held as a whole: the op leaves the logarithm of each query's
/// sum of exponentials, [N, H, T], and its gradient computes them again, some heads and queries at a time.
/// Shapes: q [N, H, T, D]; k, v [N, H, S, D] with S > 0 and D > 0; y like q. f32 or bf16. With `causal`, T and S differ
/// only where an alignment says how, and T <= S for last_key, so that every query sees a key. Throws: ShapeError,
/// ArgumentError. Sources: Vaswani et al. 2017; Dao et al. 2022 for the recomputation.
Value attention(Value q, Value k, Value v, AttentionOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

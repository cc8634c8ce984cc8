#pragma once

#include <cstdint>
#include <optional>

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// Where the queries stand among keys that are not as many: of causal attention, and of a window.
enum class CausalAlignment {
  equal,      ///< nowhere else: there are as many queries as keys, and anything else is refused
  first_key,  ///< the first query stands at the first key: query t sees the keys 0 to t
  last_key    ///< the last query stands at the last key, as behind a cache of keys: t sees the keys 0 to S - T + t
};

/// Which keys a query sees, what the products are multiplied by, and what is added to them. A key is seen where all
/// of `causal`, `window`, `key_lengths` and a boolean `mask` let it be.
struct AttentionOptions {
  bool causal = false;                                 ///< a query sees the keys up to its own place alone
  CausalAlignment alignment = CausalAlignment::equal;  ///< of causal attention, and of a window
  std::optional<float> scale{};  ///< of the products of queries and keys; 1 / sqrt(D) where absent
  /// > 0: how far a query sees. With `causal` it sees its own key and the window - 1 before it, else the window - 1
  /// behind it as well. 0: as far as there are keys.
  std::int64_t window = 0;
  /// Of padded examples, i32 or i64 [N]: the keys 0 to length - 1 of each are seen, all of a length beyond S, none of
  /// one below 1. What lies behind is multiplied by 0: it must be finite.
  Value key_lengths{};
  /// [N, H, T, S], each but S perhaps 1, and leading ones left out. Boolean: whether the query sees the key. f32: what
  /// is added to the scaled product, as by relative positions; -infinity hides the key. That has a gradient, which is
  /// as large as the mask and never larger. Numbers of such size that a sum of exponentials is lost beside them (-1e9
  /// for all keys of a query) have no useful gradient: hide keys by booleans.
  Value mask{};
  /// Rate at which probabilities become 0, in [0, 1); the others grow by 1 / (1 - rate). The numbers depend on the
  /// session's seed, the cycle and the place [n, h, t, s] alone.
  float dropout = 0;
  Value is_training{};  ///< of dropout, a host boolean; invalid: the graph's training flag
};

/// Scaled dot product attention: y = softmax(scale q k^T + mask) v for every head, where the softmax runs over the keys
/// that a query sees; a query that sees none gives zeros and has no gradient. The probabilities [N, H, T, S] are never
/// held as a whole: the op leaves the logarithm of each query's sum of exponentials, [N, H, T], the lowest f32 where
/// there is nothing to add up, and its gradient computes them again, some heads and queries at a time.
/// Shapes: q [N, H, T, D]; k, v [N, G, S, D] with S > 0, D > 0 and H a multiple of G: query head h reads head h G / H,
/// rounded down, of which no copies are made; y like q. f32 or bf16. With `causal` or a window, T and S differ only
/// where an alignment says how, and T <= S for last_key. Throws: ShapeError, ArgumentError. Sources: Vaswani et al.
/// 2017; Dao et al. 2022 for the recomputation; Ainslie et al. 2023 for groups of heads; Beltagy et al. 2020 for
/// windows; Press et al. 2022 for a mask that is added.
Value attention(Value q, Value k, Value v, AttentionOptions options = {}, Where where = Where::here());

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/key_value_cache.h"

namespace SF_API sectionflow {

// What multi_head_attention makes of a cache.

/// Throws: ArgumentError, ShapeError (starting with `label`) unless the cache has keys and values for x [N, T, C] with
/// a known T, and `position` is a whole number.
void check_cache(const std::string& label, const KeyValueCache& cache, Value position, Value x, std::int64_t heads,
                 std::int64_t head_width);

/// The places of x's rows, [T] i64: position, position + 1, ...
Value places_from(Value position, std::int64_t count);

/// What the queries at `places` see.
struct CachedKeys {
  Value keys{}, values{};            ///< [N, G, S, D], those of x among them
  Value key_lengths{};               ///< [N]: up to the last of x's places
  Value mask{};                      ///< [T, S], where the lengths do not say it all
  std::vector<Operation> updates{};  ///< that keep both
};
/// Puts the keys and values of x, [N, G, T, D], to their places. `window`: as AttentionOptions::window of causal
/// attention.
CachedKeys cached_keys(const KeyValueCache& cache, Value keys, Value values, Value places, std::int64_t window);

/// y [N, H, T, D], but NaN in rows whose place the cache has not: nothing was kept of them. What computes it has the
/// updates done.
Value known_rows(Value y, Value places, std::int64_t capacity, const std::vector<Operation>& updates);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <string>

#include "base/export.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// How many keys and values a cache keeps, and of what size.
struct KeyValueCacheOptions {
  std::int64_t batch = 1;       ///< N, > 0
  std::int64_t heads = 0;       ///< of keys and values, G; must be set
  std::int64_t head_width = 0;  ///< D; must be set
  std::int64_t capacity = 0;    ///< S, the longest text; must be set
  Dtype dtype = Dtype::f32;     ///< f32 or bf16
  std::string name = "cache";   ///< the variables are `<name>/keys` and `<name>/values`
};

/// What an attention remembers of the tokens before, so that a text is continued by one token at a time: the keys and
/// values of the places 0, 1, ..., in variables that are not trained. Each layer has a cache of its own; nets of
/// several lengths, one for the prompt and one for each next token, may share it; a run computes one of them.
///
///     const KeyValueCache cache = key_value_cache(graph, {.heads = 4, .head_width = 16, .capacity = 256});
///     y = multi_head_attention(x, {.heads = 4, .causal = true, .cache = cache, .position = position});
///     session.run({y}, {{x, token}, {position, std::int64_t{12}}});  // y, and the cache has more
///
/// Whatever computes y keeps what x has added, and nothing behind it: a text that begins at position 0 again sees
/// nothing of the one before. A run of two attentions with one cache has a cycle (SF-E011): each would have to wait for
/// the other. Places below 0 are none, as those from the capacity on.
struct KeyValueCache {
  Value keys{}, values{};  ///< variables [N, G, S, D]

  bool valid() const { return keys.valid() || values.valid(); }
};

/// Makes the variables of a cache, which begin with zeros. They lie in device memory from run to run and count in its
/// budget: 2 N G S D elements. Throws: ArgumentError for sizes that are not positive, and for other dtypes.
KeyValueCache key_value_cache(Graph& graph, const KeyValueCacheOptions& options, Where where = Where::here());

}  // namespace sectionflow

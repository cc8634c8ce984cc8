#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/host_device.h"
#include "graph/node.h"
#include "graph/ops/attention.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// What attention is about. A head is one of the N H pairs of image and head.
struct AttentionGeometry {
  std::int64_t heads, queries, keys, width;  // N H, T, S, D
  bool causal;
  std::int64_t before;  // keys in front of the one that the first query stands at
  float scale;

  AttentionGeometry(const Shape& q, const Shape& k, const AttentionOptions& options)
      : heads(q[0] * q[1]),
        queries(q[2]),
        keys(k[2]),
        width(q[3]),
        causal(options.causal),
        before(options.alignment == CausalAlignment::last_key ? keys - queries : 0),
        scale(options.scale ? *options.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(q[3])))) {}

  /// How many of the first `limit` keys query `query` sees.
  SF_HOST_DEVICE std::int64_t keys_of(std::int64_t query, std::int64_t limit) const {
    return causal && before + query + 1 < limit ? before + query + 1 : limit;
  }
  /// The first query that sees key `key`, or `queries`.
  SF_HOST_DEVICE std::int64_t first_query_of(std::int64_t key) const {
    if (!causal || key <= before) return 0;
    return key - before < queries ? key - before : queries;
  }
};

/// The pairs of a kernel that writes its first output, which has the queries' shape, tile by tile when nothing of the
/// tile is read any more, while other tiles still read keys and values. So it may lie over those of `inputs` that are
/// neither: one value may be several inputs. `keys`: the input with the keys; the values follow.
inline std::vector<InPlace> attention_pairs(const Node& node, std::initializer_list<int> inputs, int keys) {
  const auto value = [&](int index) { return node.inputs()[static_cast<std::size_t>(index)]; };
  std::vector<InPlace> pairs;
  for (int input : inputs) {
    if (value(input) != value(keys) && value(input) != value(keys + 1)) pairs.push_back({.input = input, .output = 0});
  }
  return pairs;
}

}  // namespace sectionflow

#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "kernels/attention_geometry.h"
#include "kernels/cpu/onednn_matmul.h"

namespace sectionflow {

/// Some queries of some heads, with the keys that one of them may see: what one set of matrix products computes.
struct AttentionTile {
  std::int64_t head, num_heads;  // of the queries: whole groups
  std::int64_t query, num_queries;
  std::int64_t first_key, num_keys;

  std::int64_t num_rows() const { return num_heads * num_queries; }
};

/// Cuts attention into tiles, by shape alone. A tile's scores [heads, queries, keys] stay small, and several tiles for
/// the queries let causal attention leave out most of what no query sees. Tiles of the same heads follow one another.
struct AttentionTiling {
  /// `factors`: of the products.
  AttentionTiling(const AttentionGeometry& geometry, Dtype factors, bool has_lengths);

  /// The tile of that number, in the order in which they are computed. No list is held: with many short heads it would
  /// grow with the tensors.
  AttentionTile tile(std::int64_t number) const;
  std::int64_t num_tiles() const { return head_blocks * query_blocks; }
  /// The tile without keys behind the first `length`, in steps, of which one is left at least.
  AttentionTile shortened(AttentionTile tile, std::int64_t length) const;

  AttentionGeometry geometry;
  bool has_lengths;                                           // a launch shortens tiles
  std::int64_t max_heads = 0, max_queries = 0, max_keys = 0;  // of a tile
  std::int64_t head_blocks = 0, query_blocks = 0;
  std::int64_t key_step = 1;  // a tile begins at a multiple of these keys, and ends at one or at the last key
  bool cuts_queries = false;  // the queries of a head lie in several tiles
  bool cuts_keys = false;     // a tile has not all keys
};

/// The matrix products of tiles of one size, for each head of keys. R queries of all heads that read it, K keys.
struct AttentionProducts {
  OneDnnCall by_keys;     // [R, D] x [K, D]^T -> [R, K]
  OneDnnCall times_keys;  // [R, K] x [K, D] -> [R, D]
  OneDnnCall by_queries;  // [R, K]^T x [R, D] -> [K, D]; for gradients alone
};

/// The products of each tile. Tiles of one size share theirs.
class AttentionCalls {
 public:
  /// `factors`: of the products, whose results are f32.
  AttentionCalls(OneDnn& onednn, const AttentionGeometry& geometry, const AttentionTiling& tiling, bool for_gradient,
                 Dtype factors);

  /// Whether each has code made for the machine, and, of bf16, code that may be taken.
  bool are_jit() const;

  AttentionProducts& of(const AttentionTile& tile) { return products_.at(key_of(tile)); }
  std::size_t scratchpad_bytes() const;
  std::size_t library_bytes() const;
  /// The implementations that are used, each once.
  std::string implementation() const;

 private:
  /// visit(call) for all that are used.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [key, products] : products_) {
      for (const OneDnnCall* call : {&products.by_keys, &products.times_keys, &products.by_queries}) {
        if (call->valid()) visit(*call);
      }
    }
  }

  using Key = std::array<std::int64_t, 3>;
  Key key_of(const AttentionTile& tile) const {
    return {tile.num_heads / group_, tile.num_queries * group_, tile.num_keys};
  }
  std::int64_t group_;  // heads of queries that read one of keys
  std::map<Key, AttentionProducts> products_;
  bool may_be_taken_ = true;
};

}  // namespace sectionflow

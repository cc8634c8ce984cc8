#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "base/random_formulas.h"
#include "kernels/attention_geometry.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/row_products.h"
#include "kernels/vector_math.h"

/// Attention with heads of any width, masks, windows and whatever else a node may have. Sources: Dao et al. 2022,
/// FlashAttention, and Milakov and Gimelshein 2018 for sums of exponentials whose shift grows. The gradients of
/// queries, of keys and of the mask have a kernel each, so that each block adds up what it alone writes.
namespace sectionflow::gpu::attention_general {

using namespace row_products;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Which part of a tensor [heads, rows, width] a block writes: a tile of a head's rows, and some of its columns where
/// these are many.
struct BlockPlace {
  std::int64_t head, first_row, first_column;
};
struct Blocks {
  Blocks(std::int64_t num_heads, std::int64_t rows, std::int64_t width, int of_columns)
      : heads(num_heads),
        tiles((rows + kTile - 1) / kTile),
        chunks((width + of_columns - 1) / of_columns),
        columns(of_columns) {}

  std::int64_t count() const { return heads * tiles * chunks; }
  /// `from_end`: the last tiles come first.
  SF_HOST_DEVICE BlockPlace place(std::int64_t block, bool from_end) const {
    const std::int64_t tile = block / (heads * chunks);
    return {block / chunks % heads, (from_end ? tiles - 1 - tile : tile) * kTile, block % chunks * columns};
  }

  std::int64_t heads, tiles, chunks;
  int columns;
};

/// What blocks read of tensors [heads, rows, width].
template <class T>
SF_HOST_DEVICE TileRows<T> tile_of(const T* x, std::int64_t head, std::int64_t first, std::int64_t rows,
                                   std::int64_t width) {
  return {x + (head * rows + first) * width, rows - first < kTile ? rows - first : kTile};
}

/// Which keys queries see, and what becomes of scores and probabilities: with kAll by all that a node may have, else by
/// `causal` alone.
template <bool kAll>
struct Sight {
  AttentionGeometry g;
  AttentionMask mask;
  AttentionDrop drop;
  const RandomState* random;

  /// The first key of the tiles that queries from `query` on read, and the end of the keys that query `query` sees.
  SF_HOST_DEVICE std::int64_t first_key(std::int64_t query) const {
    return kAll ? g.first_key_of(query) / kTile * kTile : 0;
  }
  SF_HOST_DEVICE std::int64_t end_key(std::int64_t head, std::int64_t query) const {
    return g.keys_of(query, kAll ? mask.keys_of(head / g.heads_of_image, g.keys) : g.keys);
  }
  /// The scaled score, and -infinity where there is no such query, or it does not see the key. `end`: end_key.
  SF_HOST_DEVICE float score(float product, std::int64_t head, std::int64_t query, std::int64_t key,
                             std::int64_t end) const {
    if (key >= end) return -kInfinity;
    if constexpr (kAll) {
      if (query >= g.queries || key < g.first_key_of(query)) return -kInfinity;
      if (mask.has_mask()) return mask.masked(product * g.scale, mask.row_of(g, head, query) + key);
    }
    return product * g.scale;
  }
  /// What is left of a probability, or of its gradient.
  SF_HOST_DEVICE float dropped(float x, std::int64_t head, std::int64_t query, std::int64_t key) const {
    if constexpr (kAll) {
      if (drop.drops) {
        const auto at = static_cast<std::uint64_t>((head * g.queries + query) * g.keys + key);
        const RandomAddress address{random->seed, drop.ordinal, static_cast<std::uint32_t>(random->cycle)};
        auto words = philox::counters_of<1>(address, at / 4);
        philox::ten_rounds(words, address.seed);
        const std::uint32_t of_four[] = {words.c0[0], words.c1[0], words.c2[0], words.c3[0]};
        return drop.drop(x, of_four[at % 4]);
      }
    }
    return x;
  }
};

/// y of a tile of queries and, but for a replay, the logarithms of its sums.
template <class T, int kColumns, bool kAll>
struct Attend {
  Sight<kAll> sight;
  Blocks blocks;
  const T *q, *k, *v;
  T* y;
  float* log_sums;
  bool has_log_sums;

  /// Of a thread's four queries; `total` of its own keys alone.
  struct Softmax {
    float most[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
    double total[4] = {};
  };

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const AttentionGeometry& g = sight.g;
    // With `causal` the last queries see the most: they begin first.
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> queries = tile_of(q, place.head, place.first_row, g.queries, g.width);
    const std::int64_t key_head = place.head / g.group;
    const std::int64_t seen = sight.end_key(place.head, place.first_row + queries.count - 1);
    Softmax softmax;
    Four sums[4][kColumns / 64] = {};
    for (std::int64_t first_key = sight.first_key(place.first_row); first_key < seen; first_key += kTile) {
      float scores[4][4];
      multiply_rows(thread, queries, tile_of(k, key_head, first_key, g.keys, g.width), g.width, scores);
      exponentials(thread, place, first_key, softmax, scores, sums);
      store_weights(thread, scores);
      add_weighted_rows<kColumns>(thread, tile_of(v, key_head, first_key, g.keys, g.width), g.width, place.first_column,
                                  sums);
    }
    combine_rows(thread, softmax.total, gpu::Sum());
    float factors[4];
    for (int i = 0; i < 4; ++i)
      factors[i] = sees_none(softmax.total[i]) ? 0 : static_cast<float>(1.0 / softmax.total[i]);
    write_sums<kColumns>(thread, sums, factors, y + (place.head * g.queries + place.first_row) * g.width, queries.count,
                         g.width, place.first_column);
    if (has_log_sums || place.first_column > 0 || column_of(thread) > 0) return;
    for (int i = 0; i < 4 && row_of(thread) + i < queries.count; ++i) {
      const std::int64_t query = place.first_row + row_of(thread) + i;
      log_sums[place.head * g.queries + query] = sees_none(softmax.total[i])
                                                     ? kLogOfNothing
                                                     : static_cast<float>(softmax.most[i] + std::log(softmax.total[i]));
    }
  }

 private:
  /// The largest score adds 1 to a sum of exponentials.
  SF_HOST_DEVICE static bool sees_none(double total) { return kAll && total == 0; }

  /// scores = exp(scale scores - the largest so far), 0 where a query does not see the key; sums and totals of before
  /// are taken to the new largest.
  template <class Thread>
  SF_HOST_DEVICE void exponentials(Thread& thread, const BlockPlace& place, std::int64_t first_key, Softmax& softmax,
                                   float (&scores)[4][4], Four (&sums)[4][kColumns / 64]) const {
    const std::int64_t key = first_key + column_of(thread);
    float most[4];
    for (int i = 0; i < 4; ++i) {
      const std::int64_t query = place.first_row + row_of(thread) + i, end = sight.end_key(place.head, query);
      most[i] = softmax.most[i];
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = sight.score(scores[i][j], place.head, query, key + kSide * j, end);
        most[i] = scores[i][j] > most[i] ? scores[i][j] : most[i];
      }
    }
    combine_rows(thread, most, gpu::Larger());
    for (int i = 0; i < 4; ++i) {
      const std::int64_t query = place.first_row + row_of(thread) + i;
      const float shift = most[i] == -kInfinity ? 0.0F : most[i];
      const float rescale = vector_math::exp(softmax.most[i] - shift);
      softmax.most[i] = most[i];
      double total = softmax.total[i] * static_cast<double>(rescale);
      for (int j = 0; j < 4; ++j) {
        scores[i][j] = vector_math::exp(scores[i][j] - shift);  // 0 of -infinity
        total += scores[i][j];
        scores[i][j] = sight.dropped(scores[i][j], place.head, query, key + kSide * j);
      }
      softmax.total[i] = total;
      for (Four& four : sums[i])
        for (float& sum : four.values) sum *= rescale;
    }
  }
};

/// What the gradient's kernels read. With probabilities P and dP = dy v^T, both [T, S], and mean = sum over keys of
/// P dP: dmask = P (dP - mean), dS = dmask scale, dv = P^T dy, dk = dS^T q, dq = dS k. Where some probabilities are
/// dropped, so are dP there, and P in dv.
template <class T, bool kAll>
struct GradientInputs {
  Sight<kAll> sight;
  const T *dy, *q, *k, *v;
  const float* log_sums;
  float* means;  // [heads, queries]

  SF_HOST_DEVICE TileRows<T> queries(const T* x, std::int64_t head, std::int64_t first) const {
    return tile_of(x, head, first, sight.g.queries, sight.g.width);
  }
  /// `head`: of keys.
  SF_HOST_DEVICE TileRows<T> keys(const T* x, std::int64_t head, std::int64_t first) const {
    return tile_of(x, head, first, sight.g.keys, sight.g.width);
  }
  /// 0 where there is no such query, or it does not see the key.
  SF_HOST_DEVICE float probability(float product, std::int64_t head, std::int64_t query, std::int64_t key) const {
    const AttentionGeometry& g = sight.g;
    const std::int64_t end = sight.end_key(head, query);
    if (query >= g.queries || key >= end) return 0.0F;
    return vector_math::exp(sight.score(product, head, query, key, end) - log_sums[head * g.queries + query]);
  }
  SF_HOST_DEVICE float mask_gradient(float p, float dp, std::int64_t head, std::int64_t query) const {
    return query < sight.g.queries ? p * (dp - means[head * sight.g.queries + query]) : 0.0F;
  }
  SF_HOST_DEVICE float score_gradient(float p, float dp, std::int64_t head, std::int64_t query) const {
    return mask_gradient(p, dp, head, query) * sight.g.scale;
  }
};

/// The means of a tile of queries.
template <class T, bool kAll>
struct WriteMeans {
  GradientInputs<T, kAll> in;
  Blocks blocks;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const AttentionGeometry& g = in.sight.g;
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> q = in.queries(in.q, place.head, place.first_row),
                      dy = in.queries(in.dy, place.head, place.first_row);
    const std::int64_t seen = in.sight.end_key(place.head, place.first_row + q.count - 1);
    const std::int64_t query = place.first_row + row_of(thread), key_head = place.head / g.group;
    double means[4] = {};
    for (std::int64_t first_key = in.sight.first_key(place.first_row); first_key < seen; first_key += kTile) {
      float scores[4][4], dp[4][4];
      multiply_rows(thread, q, in.keys(in.k, key_head, first_key), g.width, scores);
      multiply_rows(thread, dy, in.keys(in.v, key_head, first_key), g.width, dp);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          const std::int64_t key = first_key + column_of(thread) + kSide * j;
          means[i] += static_cast<double>(in.probability(scores[i][j], place.head, query + i, key)) *
                      static_cast<double>(in.sight.dropped(dp[i][j], place.head, query + i, key));
        }
    }
    combine_rows(thread, means, gpu::Sum());
    if (column_of(thread) > 0) return;
    for (int i = 0; i < 4 && row_of(thread) + i < q.count; ++i)
      in.means[place.head * g.queries + query + i] = static_cast<float>(means[i]);
  }
};

/// dq of a tile of queries.
template <class T, int kColumns, bool kAll>
struct QueryGradient {
  GradientInputs<T, kAll> in;
  Blocks blocks;
  T* dq;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const AttentionGeometry& g = in.sight.g;
    const BlockPlace place = blocks.place(thread.block(), true);
    const TileRows<T> q = in.queries(in.q, place.head, place.first_row),
                      dy = in.queries(in.dy, place.head, place.first_row);
    const std::int64_t seen = in.sight.end_key(place.head, place.first_row + q.count - 1);
    const std::int64_t query = place.first_row + row_of(thread), key_head = place.head / g.group;
    Four sums[4][kColumns / 64] = {};
    for (std::int64_t first_key = in.sight.first_key(place.first_row); first_key < seen; first_key += kTile) {
      float scores[4][4], dp[4][4];
      const TileRows<T> k = in.keys(in.k, key_head, first_key);
      multiply_rows(thread, q, k, g.width, scores);
      multiply_rows(thread, dy, in.keys(in.v, key_head, first_key), g.width, dp);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) {
          const std::int64_t key = first_key + column_of(thread) + kSide * j;
          const float p = in.probability(scores[i][j], place.head, query + i, key);
          dp[i][j] =
              in.score_gradient(p, in.sight.dropped(dp[i][j], place.head, query + i, key), place.head, query + i);
        }
      store_weights(thread, dp);
      add_weighted_rows<kColumns>(thread, k, g.width, place.first_column, sums);
    }
    write_sums<kColumns>(thread, sums, {1, 1, 1, 1}, dq + (place.head * g.queries + place.first_row) * g.width, q.count,
                         g.width, place.first_column);
  }
};

/// dk and dv of a tile of keys, of the queries of all heads that read them, one head after the other.
template <class T, int kColumns, bool kAll>
struct KeyGradient {
  GradientInputs<T, kAll> in;
  Blocks blocks;
  T *dk, *dv;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const AttentionGeometry& g = in.sight.g;
    // With `causal` the first keys are seen by the most.
    const BlockPlace place = blocks.place(thread.block(), false);
    const TileRows<T> k = in.keys(in.k, place.head, place.first_row), v = in.keys(in.v, place.head, place.first_row);
    const std::int64_t key = place.first_row + row_of(thread), width = g.width;
    Four dk_sums[4][kColumns / 64] = {}, dv_sums[4][kColumns / 64] = {};
    // With `causal` no query before the first key sees one of these, with a window none far behind the last.
    const std::int64_t seeing = g.first_query_of(place.first_row),
                       begin = seeing < g.queries ? seeing / kTile * kTile : g.queries;
    const std::int64_t end = kAll ? g.queries_of(place.first_row + k.count - 1) : g.queries;
    for (std::int64_t head = place.head * g.group; head < (place.head + 1) * g.group; ++head) {
      if (kAll && place.first_row >= in.sight.mask.keys_of(head / g.heads_of_image, g.keys)) continue;
      for (std::int64_t first = begin; first < end; first += kTile) {
        const TileRows<T> q = in.queries(in.q, head, first), dy = in.queries(in.dy, head, first);
        float p[4][4], dp[4][4];
        multiply_rows(thread, k, q, width, p);
        multiply_rows(thread, v, dy, width, dp);
        for (int j = 0; j < 4; ++j) {
          const std::int64_t query = first + column_of(thread) + kSide * j;
          for (int i = 0; i < 4; ++i) {
            p[i][j] = in.probability(p[i][j], head, query, key + i);
            dp[i][j] = in.score_gradient(p[i][j], in.sight.dropped(dp[i][j], head, query, key + i), head, query);
            p[i][j] = in.sight.dropped(p[i][j], head, query, key + i);
          }
        }
        store_weights(thread, p);
        add_weighted_rows<kColumns>(thread, dy, width, place.first_column, dv_sums);
        store_weights(thread, dp);
        add_weighted_rows<kColumns>(thread, q, width, place.first_column, dk_sums);
      }
    }
    const std::int64_t at = (place.head * g.keys + place.first_row) * width;
    write_sums<kColumns>(thread, dk_sums, {1, 1, 1, 1}, dk + at, k.count, width, place.first_column);
    write_sums<kColumns>(thread, dv_sums, {1, 1, 1, 1}, dv + at, k.count, width, place.first_column);
  }
};

/// dmask of a tile of keys and, where the mask has a row for each query, of a tile of queries: the sum over the images,
/// heads and queries that share a number of it, in their order.
template <class T>
struct MaskGradient {
  GradientInputs<T, true> in;
  std::int64_t images, heads, key_tiles, query_tiles;  // of the mask
  float* dmask;

  MaskGradient(const GradientInputs<T, true>& inputs, float* gradient) : in(inputs), dmask(gradient) {
    const AttentionGeometry& g = in.sight.g;
    const AttentionMask& mask = in.sight.mask;
    images = mask.image_step > 0 ? g.heads / g.heads_of_image : 1;
    heads = mask.head_step > 0 ? g.heads_of_image : 1;
    key_tiles = (g.keys + kTile - 1) / kTile;
    query_tiles = mask.query_step > 0 ? (g.queries + kTile - 1) / kTile : 1;
  }
  std::int64_t count() const { return images * heads * key_tiles * query_tiles; }

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const AttentionGeometry& g = in.sight.g;
    const AttentionMask& mask = in.sight.mask;
    const std::int64_t block = thread.block(), first_key = block % key_tiles * kTile;
    const std::int64_t of_mask = block / key_tiles / query_tiles, image = of_mask / heads,
                       head_of_image = of_mask % heads;
    const std::int64_t first_query = block / key_tiles % query_tiles * kTile;
    const bool by_query = mask.query_step > 0;
    const std::int64_t end_query = by_query ? first_query + 1 : g.queries;
    double sums[4][4] = {};
    for (std::int64_t head = 0; head < g.heads; ++head) {
      if (images > 1 && head / g.heads_of_image != image) continue;
      if (heads > 1 && head % g.heads_of_image != head_of_image) continue;
      for (std::int64_t first = first_query; first < end_query; first += kTile)
        add_tile(thread, head, first, first_key, sums);
    }
    double of_keys[4] = {};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) of_keys[i] += sums[i][j];
    if (!by_query) combine_rows(thread, of_keys, gpu::Sum());
    float* to = dmask + image * mask.image_step + head_of_image * mask.head_step;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t key = first_key + row_of(thread) + i;
      if (key >= g.keys) continue;
      if (!by_query && column_of(thread) == 0) to[key] = static_cast<float>(of_keys[i]);
      for (int j = 0; by_query && j < 4; ++j) {
        const std::int64_t query = first_query + column_of(thread) + kSide * j;
        if (query < g.queries) to[query * mask.query_step + key] = static_cast<float>(sums[i][j]);
      }
    }
  }

 private:
  template <class Thread>
  SF_HOST_DEVICE void add_tile(Thread& thread, std::int64_t head, std::int64_t first_query, std::int64_t first_key,
                               double (&sums)[4][4]) const {
    const std::int64_t key_head = head / in.sight.g.group, width = in.sight.g.width;
    float p[4][4], dp[4][4];
    multiply_rows(thread, in.keys(in.k, key_head, first_key), in.queries(in.q, head, first_query), width, p);
    multiply_rows(thread, in.keys(in.v, key_head, first_key), in.queries(in.dy, head, first_query), width, dp);
    for (int j = 0; j < 4; ++j) {
      const std::int64_t query = first_query + column_of(thread) + kSide * j;
      for (int i = 0; i < 4; ++i) {
        const std::int64_t key = first_key + row_of(thread) + i;
        const float of_p = in.probability(p[i][j], head, query, key);
        sums[i][j] += in.mask_gradient(of_p, in.sight.dropped(dp[i][j], head, query, key), head, query);
      }
    }
  }
};

}  // namespace sectionflow::gpu::attention_general

#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention_tensor_core.h"

/// The gradients of attention on tensor cores. With probabilities P and dP = dy v^T, both [T, S], and mean = sum over
/// keys of P dP: dS = P (dP - mean) scale, dv = P^T dy, dk = dS^T q, dq = dS k.
namespace sectionflow::gpu::attention_tensor_core {

template <class Stored>
struct GradientInputs {
  AttentionGeometry g;
  const Stored *dy, *q, *k, *v;
  const float* log_sums;
  float* means;  // [heads, queries]

  SF_HOST_DEVICE int queries() const { return static_cast<int>(g.queries); }
  SF_HOST_DEVICE int keys() const { return static_cast<int>(g.keys); }
  SF_HOST_DEVICE int width() const { return static_cast<int>(g.width); }
  SF_HOST_DEVICE std::int64_t queries_of(std::int64_t head) const { return head * g.queries * g.width; }
  SF_HOST_DEVICE std::int64_t keys_of(std::int64_t head) const { return head * g.keys * g.width; }
  /// By which scores are shifted, times log2 e; a query that is not there has no probabilities.
  SF_HOST_DEVICE float shift_of(std::int64_t head, int query) const {
    return query < g.queries ? log_sums[head * g.queries + query] * kLog2E : kInfinity;
  }
  SF_HOST_DEVICE float mean_of(std::int64_t head, int query) const {
    return query < g.queries ? means[head * g.queries + query] : 0.0F;
  }
};

/// For each 16 queries of a warp: their means, or dq.
template <class Factors, int kColumns, bool kWritesMeans>
struct QueryGradient {
  using Stored = typename Factors::Stored;
  static constexpr int kKeys = 32;
  using Keys = Stream<typename Factors::template Tile<kKeys, kColumns>, 2>;
  GradientInputs<Stored> in;
  Stored* dq;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const int queries = in.queries(), keys = in.keys(), width = in.width();
    // With `causal` the last queries see the most: they begin first.
    const Place place = place_of(thread, in.g.heads, queries, true);
    const HeldRows<Factors, kColumns> of_q(thread, in.q + in.queries_of(place.head), place.of_warp, queries, width),
        of_dy(thread, in.dy + in.queries_of(place.head), place.of_warp, queries, width);
    const float scale_of_two = in.g.scale * kLog2E;
    float shift[2], mean[2];
    SF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int query = place.of_warp + row_of(thread) + 8 * half;
      shift[half] = in.shift_of(place.head, query);
      mean[half] = kWritesMeans ? 0 : in.mean_of(place.head, query);
    }
    Sums sums[kWritesMeans ? 1 : kColumns / 8] = {};
    const int seen = seen_by(in.g, place.of_warp, kRowsOfWarp);
    const auto add_tile = [&](int first_key, const auto& of_keys, const auto& of_values) {
      if (first_key >= seen) return;
      Sums p[kKeys / 8], dp[kKeys / 8];
      multiply_rows<Factors>(thread, of_q, of_keys, p);
      if (first_key + kKeys > seen - kRowsOfWarp + 1) hide_keys(thread, in.g, place.of_warp, first_key, p);
      SF_UNROLL
      for (Sums& of_eight : p) {
        SF_UNROLL
        for (int i = 0; i < 4; ++i) of_eight[i] = fast_exp2(fmaf(of_eight[i], scale_of_two, -shift[i / 2]));
      }
      multiply_rows<Factors>(thread, of_dy, of_values, dp);
      SF_UNROLL
      for (int eight = 0; eight < kKeys / 8; ++eight) {
        SF_UNROLL
        for (int i = 0; i < 4; ++i) {
          if constexpr (kWritesMeans) {
            mean[i / 2] = fmaf(p[eight][i], dp[eight][i], mean[i / 2]);
          } else {
            dp[eight][i] = p[eight][i] * (dp[eight][i] - mean[i / 2]);
          }
        }
      }
      if constexpr (!kWritesMeans) add_weighted_rows<Factors>(thread, dp, of_keys, sums);
    };
    const std::int64_t of_keys = in.keys_of(place.head / in.g.group);
    const Keys stream{in.k + of_keys, in.v + of_keys, keys, width, 0};
    stream.for_each(thread, 0, seen_by(in.g, place.of_block, kRowsOfBlock), add_tile);
    if constexpr (kWritesMeans) {
      SF_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float sum = combine_lanes(thread, mean[half], Add());
        const int query = place.of_warp + row_of(thread) + 8 * half;
        if (column_of(thread) == 0 && query < queries) in.means[place.head * queries + query] = sum;
      }
    } else {
      write_rows<Factors>(thread, sums, in.g.scale, in.g.scale, dq + in.queries_of(place.head), place.of_warp, queries,
                          width);
    }
  }
};

/// dk and dv of each 16 keys of a warp, of the queries of all heads that read them, one head after the other.
template <class Factors, int kColumns>
struct KeyGradient {
  using Stored = typename Factors::Stored;
  static constexpr int kQueries = 32;
  static_assert(kQueries == kWarp, "each lane brings what the probabilities of one query need");
  using Queries =
      Stream<typename Factors::template Tile<kQueries, kColumns, true>, kColumns * sizeof(Stored) <= 128 ? 2 : 1>;
  using Keys = Stream<typename Factors::template Tile<kRowsOfBlock, kColumns>, 1>;
  static constexpr int kSharedBytes = Keys::kBytes + Queries::kBytes;
  static_assert(kSharedBytes <= 48 * 1024);
  GradientInputs<Stored> in;
  Stored *dk, *dv;

  template <class Thread>
  SF_HOST_DEVICE void operator()(Thread& thread) const {
    const int queries = in.queries(), keys = in.keys(), width = in.width();
    // With `causal` the first keys are seen by the most.
    const Place place = place_of(thread, in.g.key_heads(), keys, false);
    const std::int64_t at = in.keys_of(place.head);
    // With `causal` no query before the first key sees one of these, and each key is seen from a query later on at
    // most.
    const int begin = first_seeing(place.of_block), begin_of_warp = first_seeing(place.of_warp);
    const Keys own{in.k + at, in.v + at, keys, width, 0};
    if (begin < queries) own.copy(thread, 0, place.of_block);
    const int first_row = place.of_warp - place.of_block;
    const float scale_of_two = in.g.scale * kLog2E;
    Sums dk_sums[kColumns / 8] = {}, dv_sums[kColumns / 8] = {};
    std::int64_t head = place.head * in.g.group;
    const auto add_tile = [&](int first_query, const auto& of_q, const auto& of_dy) {
      if (first_query + kQueries <= begin_of_warp) return;
      const float shift = in.shift_of(head, first_query + lane_of(thread)),
                  mean = in.mean_of(head, first_query + lane_of(thread));
      Sums p[kQueries / 8], dp[kQueries / 8];
      multiply_rows<Factors>(
          thread, [&](int step) { return own.tile(0, 0).left(thread, first_row, 16 * step); }, of_q, p);
      if (first_query < begin_of_warp + kRowsOfWarp - 1) hide_queries(thread, place.of_warp, first_query, p);
      exponentials(thread, scale_of_two, shift, p);
      add_weighted_rows<Factors>(thread, p, of_dy, dv_sums);
      multiply_rows<Factors>(
          thread, [&](int step) { return own.tile(0, 1).left(thread, first_row, 16 * step); }, of_dy, dp);
      subtract_means(thread, mean, p, dp);
      add_weighted_rows<Factors>(thread, dp, of_q, dk_sums);
    };
    const int first_read = begin < queries ? begin / kQueries * kQueries : queries;
    for (int of_group = 0; of_group < in.g.group; ++of_group, ++head) {
      if (of_group > 0) thread.barrier();  // the last tile is read no more
      const Queries stream{in.q + in.queries_of(head), in.dy + in.queries_of(head), queries, width, Keys::kBytes};
      stream.for_each(thread, first_read, queries, add_tile);
    }
    write_rows<Factors>(thread, dk_sums, in.g.scale, in.g.scale, dk + at, place.of_warp, keys, width);
    write_rows<Factors>(thread, dv_sums, 1, 1, dv + at, place.of_warp, keys, width);
  }

 private:
  /// The first query that sees a key. Of one that is not there, 0: whoever sees it does not matter.
  SF_HOST_DEVICE int first_seeing(int key) const { return static_cast<int>(in.g.first_query_of(key)); }

  /// Scores of queries that do not see a key become -infinity.
  template <class Thread>
  SF_HOST_DEVICE void hide_queries(Thread& thread, int first_key, int first_query, Sums (&scores)[kQueries / 8]) const {
    SF_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int first = first_seeing(first_key + row_of(thread) + 8 * half) - first_query - column_of(thread);
      SF_UNROLL
      for (int eight = 0; eight < kQueries / 8; ++eight) {
        SF_UNROLL
        for (int i = 0; i < 2; ++i)
          if (8 * eight + i < first) scores[eight][2 * half + i] = -kInfinity;
      }
    }
  }
  /// scores = the probabilities; lane i brings what query i of the tile is shifted by.
  template <class Thread>
  SF_HOST_DEVICE static void exponentials(Thread& thread, float scale_of_two, float shift,
                                          Sums (&scores)[kQueries / 8]) {
    SF_UNROLL
    for (int eight = 0; eight < kQueries / 8; ++eight) {
      SF_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float of_query = value_of_lane(thread, shift, 8 * eight + column_of(thread) + i);
        SF_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& score = scores[eight][2 * half + i];
          score = fast_exp2(fmaf(score, scale_of_two, -of_query));
        }
      }
    }
  }
  /// dp = p (dp - mean).
  template <class Thread>
  SF_HOST_DEVICE static void subtract_means(Thread& thread, float mean, const Sums (&p)[kQueries / 8],
                                            Sums (&dp)[kQueries / 8]) {
    SF_UNROLL
    for (int eight = 0; eight < kQueries / 8; ++eight) {
      SF_UNROLL
      for (int i = 0; i < 2; ++i) {
        const float of_query = value_of_lane(thread, mean, 8 * eight + column_of(thread) + i);
        SF_UNROLL
        for (int half = 0; half < 2; ++half) {
          float& product = dp[eight][2 * half + i];
          product = p[eight][2 * half + i] * (product - of_query);
        }
      }
    }
  }
};

template <class Factors, int kColumns>
void differentiate(const AttentionGeometry& g, const KernelArguments& arguments) {
  using Stored = typename Factors::Stored;
  const auto input = [&](int index) { return static_cast<const Stored*>(arguments.inputs[index]); };
  const auto output = [&](int index) { return static_cast<Stored*>(arguments.outputs[index]); };
  const GradientInputs<Stored> in{g,
                                  input(0),
                                  input(1),
                                  input(2),
                                  input(3),
                                  static_cast<const float*>(arguments.inputs[4]),
                                  static_cast<float*>(arguments.workspace)};
  using Means = QueryGradient<Factors, kColumns, true>;
  using Queries = QueryGradient<Factors, kColumns, false>;
  using Keys = KeyGradient<Factors, kColumns>;
  launch_blocks(arguments.queue, shape_of(g.heads, g.queries, Means::Keys::kBytes), Means{in, nullptr});
  launch_blocks(arguments.queue, shape_of(g.key_heads(), g.keys, Keys::kSharedBytes), Keys{in, output(1), output(2)});
  // Last, as dq may lie over dy or q: each block has read its rows of both before it writes them.
  launch_blocks(arguments.queue, shape_of(g.heads, g.queries, Queries::Keys::kBytes), Queries{in, output(0)});
}

}  // namespace sectionflow::gpu::attention_tensor_core

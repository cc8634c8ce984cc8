#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/ops/attention.h"
#include "kernels/cpu/attention_kernel.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// Inputs: dy, q, k, v, log sums, and what limits and drops say. Outputs: dq, dk, dv, perhaps dmask. All but log sums
/// and dmask are stored as T. With probabilities P and dP = dy v^T, both [T, S]: dmask = P (dP - sum over keys of P
/// dP), dS = dmask scale, dv = P^T dy, dk = dS^T q, dq = dS k. Where D drops probabilities, dP = D (dy v^T) and dv =
/// D(P)^T dy. Sums of tiles are f32: of bf16 in workspace, for the heads of a tile, from where they are rounded when
/// their last tile is done. Heads that read one head of keys are more rows of one product.
template <class Types>
class BackwardKernel final : public AttentionKernel<Types> {
  using Base = AttentionKernel<Types>;
  using T = typename Base::T;
  using F = typename Base::F;
  using Base::calls_;
  using Base::drop_;
  using Base::geometry_;
  using Base::limits_;
  using Base::scratch_;
  using Base::tiling_;
  using Base::workspace_;

 public:
  BackwardKernel(OneDnn& onednn, const AttentionProblem& problem, const std::vector<TensorType>& outputs,
                 std::vector<InPlace> in_place)
      : Base(onednn, problem, true, std::move(in_place)),
        key_count_(outputs[1].shape.num_elements()),
        mask_count_(outputs.size() > 3 ? outputs[3].shape.num_elements() : -1) {
    if (scratch_.has_tiles) dy_at_ = workspace_.add(scratch_.query_bytes);
    if (Types::kIsBf16 || scratch_.packs_keys || adds_parts()) part_at_ = workspace_.add(scratch_.key_bytes);
    v_at_ = scratch_.keeps_keys ? workspace_.add(scratch_.packed_key_bytes) : part_at_;
    if (Types::kIsBf16) sums_at_ = {workspace_.add(scratch_.key_bytes), part_at_};
    if (Types::kIsBf16 && adds_parts()) sums_at_[1] = workspace_.add(scratch_.key_bytes);
    gradients_at_ = workspace_.add(scratch_.score_bytes);
    if (Types::kRoundsWeights) gradient_weights_at_ = workspace_.add(scratch_.weight_bytes);
  }

  void launch(const KernelArguments& arguments) override {
    if (tiling_.num_tiles() == 0) {
      for (int index : {1, 2}) fill_with_zeros(output(arguments, index), key_count_);
    }
    if (wants_dmask()) fill_with_zeros(static_cast<float*>(arguments.outputs[3]), mask_count_);
    const AttentionMask mask = limits_.of(arguments);
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) run(this->tile_of(i, mask), mask, arguments);
  }

 private:
  static T* output(const KernelArguments& arguments, int index) { return static_cast<T*>(arguments.outputs[index]); }

  template <class Element>
  static void fill_with_zeros(Element* x, std::int64_t count) {
    parallel_for(count, kParallelGrain,
                 [x](std::int64_t begin, std::int64_t end) { std::fill(x + begin, x + end, Element{}); });
  }

  bool wants_dmask() const { return mask_count_ >= 0; }

  /// Several tiles add to one row of dk and dv.
  bool adds_parts() const { return tiling_.cuts_queries || tiling_.cuts_keys; }

  void run(const AttentionTile& tile, const AttentionMask& mask, const KernelArguments& arguments) {
    AttentionProducts& products = calls_.of(tile);
    void* pad = this->scratchpad(arguments);
    const F* dy = this->packed_queries(arguments, 0, tile, dy_at_);
    const F* q = this->packed_queries(arguments, 1, tile, scratch_.q_at);
    const F* k = this->packed_keys(arguments, 2, tile, scratch_.k_at);
    const F* v = this->packed_keys(arguments, 3, tile, v_at_);
    float* scores = Base::template part<float>(arguments, scratch_.scores_at);
    float* gradients = Base::template part<float>(arguments, gradients_at_);
    F* probabilities = this->weights(arguments, scratch_.scores_at, scratch_.weights_at);
    F* score_weights = this->weights(arguments, gradients_at_, gradient_weights_at_);
    products.by_keys.launch({q, k, scores}, pad);
    products.by_keys.launch({dy, v, gradients}, pad);
    const Scores of{scores, gradients, probabilities, score_weights};
    score_gradients(tile, mask, arguments, of);
    if (wants_dmask()) {
      add_mask_gradient(tile, mask, gradients, static_cast<float*>(arguments.outputs[3]));
      weigh_gradients(tile, mask, of);
    }
    // Values are read no more when something is written over them.
    add_key_gradient(tile, arguments, 2, probabilities, dy);
    T* dq = output(arguments, 0);
    if constexpr (std::is_same_v<T, float>) {
      if (!scratch_.has_tiles) {
        add_key_gradient(tile, arguments, 1, score_weights, q);
        products.times_keys.launch({score_weights, k, dq + scratch_.q_rows.at(tile.head, 0)}, pad);
        return;
      }
    }
    // dy is read no more.
    float* tile_dq = Base::template part<float>(arguments, dy_at_);
    products.times_keys.launch({score_weights, k, tile_dq}, pad);
    add_key_gradient(tile, arguments, 1, score_weights, q);
    // Each may lie over any of the inputs, of which nothing is read any more but by tiles of other queries or heads.
    if (Types::kIsBf16 && tile.query + tile.num_queries == geometry_.queries) round_key_gradients(tile, arguments);
    write_dq(tile, tile_dq, dq);
  }

  /// [R, K] each: what comes as scores and dP, and what P and dS are written to, the same or others.
  struct Scores {
    float *scores, *gradients;
    F *probabilities, *score_weights;
  };

  /// A row of a tile: its query, and the keys that it sees, of which the first is key `key` of all.
  struct Row {
    std::int64_t head, query, key;
    SeenKeys keys;
  };
  Row row_of(const AttentionTile& tile, const AttentionMask& mask, std::int64_t row) const {
    const std::int64_t head = tile.head + row / tile.num_queries, query = tile.query + row % tile.num_queries;
    const SeenKeys keys = this->seen_keys(tile, mask, head, query);
    return {head, query, tile.first_key + keys.first, keys};
  }

  /// From scores to probabilities, and from dP to dS or, where that is wanted, to dmask. What products weigh rows by is
  /// 0 where a query does not see the key.
  void score_gradients(const AttentionTile& tile, const AttentionMask& mask, const KernelArguments& arguments,
                       const Scores& of) const {
    const auto* log_sums = static_cast<const float*>(arguments.inputs[4]);
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t number = begin; number < end; ++number) {
        const Row row = row_of(tile, mask, number);
        const std::int64_t seen = row.keys.count, at = number * tile.num_keys;
        const float log_sum = log_sums[row.head * geometry_.queries + row.query], scale = geometry_.scale;
        float* p = of.scores + at + row.keys.first;      // [seen]
        float* dp = of.gradients + at + row.keys.first;  // [seen]
        if (mask.has_mask()) {
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) p[key] = p[key] * scale;
          mask_row(mask, mask.row_of(geometry_, row.head, row.query) + row.key, seen, p);
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) p[key] = vector_math::exp(p[key] - log_sum);
        } else {
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) p[key] = vector_math::exp(p[key] * scale - log_sum);
        }
        const std::int64_t place = this->random_place(row.head, row.query, row.key);
        if (drop_.drops) drop_row(drop_, arguments.random, place, seen, dp);
        const auto mean = static_cast<float>(row_sum(seen, [p, dp](std::int64_t key) { return p[key] * dp[key]; }));
        if (wants_dmask()) {
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) dp[key] = p[key] * (dp[key] - mean);
        } else {
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) dp[key] = p[key] * (dp[key] - mean) * scale;
          write_weights(tile, row, dp, of.score_weights + at);
        }
        if (drop_.drops) drop_row(drop_, arguments.random, place, seen, p);
        write_weights(tile, row, p, of.probabilities + at);
      }
    });
  }

  /// `from`: of the keys that are seen; `to`: of all keys of the tile.
  static void write_weights(const AttentionTile& tile, const Row& row, const float* from, F* to) {
    const auto [first, seen] = row.keys;
    if constexpr (Types::kRoundsWeights) convert_row(to + first, from, seen);
    std::fill(to, to + first, F(0.0F));
    std::fill(to + first + seen, to + tile.num_keys, F(0.0F));
  }

  /// From dmask to dS.
  void weigh_gradients(const AttentionTile& tile, const AttentionMask& mask, const Scores& of) const {
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t number = begin; number < end; ++number) {
        const Row row = row_of(tile, mask, number);
        const float scale = geometry_.scale;
        float* ds = of.gradients + number * tile.num_keys + row.keys.first;  // [seen]
#pragma omp simd
        for (std::int64_t key = 0; key < row.keys.count; ++key) ds[key] = ds[key] * scale;
        write_weights(tile, row, ds, of.score_weights + number * tile.num_keys);
      }
    });
  }

  /// dmask += what the tile's rows give to it, in their order. Each thread has places of its own: some of the queries,
  /// or of the keys where the mask is one for all queries.
  void add_mask_gradient(const AttentionTile& tile, const AttentionMask& mask, const float* gradients,
                         float* dmask) const {
    constexpr std::int64_t kKeys = 64;
    const bool by_query = mask.query_step > 0;
    const std::int64_t pieces = by_query ? tile.num_queries : (tile.num_keys + kKeys - 1) / kKeys;
    parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first_key = by_query ? 0 : begin * kKeys, end_key = by_query ? tile.num_keys : end * kKeys;
      for (std::int64_t number = 0; number < tile.num_rows(); ++number) {
        const std::int64_t query = number % tile.num_queries;
        if (by_query && (query < begin || query >= end)) continue;
        const Row row = row_of(tile, mask, number);
        const std::int64_t from = std::max(first_key, row.keys.first),
                           to = std::min(end_key, row.keys.first + row.keys.count);
        const float* x = gradients + number * tile.num_keys;
        float* sums = dmask + mask.row_of(geometry_, row.head, row.query) + tile.first_key;
#pragma omp simd
        for (std::int64_t key = from; key < to; ++key) sums[key] = sums[key] + x[key];
      }
    });
  }

  float* sums_of(const KernelArguments& arguments, int index) const {
    return Base::template part<float>(arguments, sums_at_[static_cast<std::size_t>(index - 1)]);
  }

  /// dk or dv, output `index`, of the tile's heads: weights^T rows, added to what earlier tiles of these heads gave.
  void add_key_gradient(const AttentionTile& tile, const KernelArguments& arguments, int index, const F* weights,
                        const F* rows) {
    float* sums = sums_of(arguments, index);  // [heads, S, D]
    const RowBlock keys = this->keys_of(tile);
    if constexpr (!Types::kIsBf16) sums = output(arguments, index) + scratch_.k_rows.at(keys.head, 0);
    OneDnnCall& product = calls_.of(tile).by_queries;
    if (adds_parts()) {
      float* partial = Base::template part<float>(arguments, part_at_);
      if (tile.query == 0) fill_with_zeros(sums, keys.num_heads * geometry_.keys * geometry_.width);
      product.launch({weights, rows, partial}, this->scratchpad(arguments));
      add_part(keys, partial, sums);
    } else {
      product.launch({weights, rows, sums}, this->scratchpad(arguments));
    }
  }

  void round_key_gradients(const AttentionTile& tile, const KernelArguments& arguments) const {
    const RowBlock keys = this->keys_of(tile);
    const std::int64_t num_rows = keys.num_heads * geometry_.keys, width = geometry_.width;
    for (const int index : {1, 2}) {
      T* dx = output(arguments, index) + scratch_.k_rows.at(keys.head, 0);
      convert_rows(dx, width, sums_of(arguments, index), width, num_rows, width);
    }
  }

  /// `sums`: of the first of the heads.
  void add_part(const RowBlock& keys, const float* partial, float* sums) const {
    for_each_piece(keys.num_heads, keys.num_rows,
                   [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
                     const float* from = partial + first * geometry_.width;
                     float* to = sums + scratch_.k_rows.at(head, keys.row + row);
#pragma omp simd
                     for (std::int64_t i = 0; i < count * geometry_.width; ++i) to[i] = to[i] + from[i];
                   });
  }

  void write_dq(const AttentionTile& tile, const float* tile_dq, T* dq) const {
    for_each_piece(tile.num_heads, tile.num_queries,
                   [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
                     convert_row(dq + scratch_.q_rows.at(tile.head + head, tile.query + row),
                                 tile_dq + first * geometry_.width, count * geometry_.width);
                   });
  }

  std::int64_t key_count_, mask_count_;  // elements of dk, and of dmask, or -1
  std::size_t dy_at_ = 0, part_at_ = 0, v_at_ = 0, gradients_at_ = 0, gradient_weights_at_ = 0;
  std::array<std::size_t, 2> sums_at_{};  // of dk and dv
};

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const auto& options = request.node.options<AttentionNodeOptions>();
  const AttentionLimits limits(request, 5);
  const AttentionProblem problem{AttentionGeometry(request.inputs[1].shape, request.inputs[2].shape, options), limits,
                                 AttentionDrop(request, 5, options.ordinal)};
  std::vector<InPlace> pairs = attention_pairs(request.node, {0, 1}, 2, limits.at.mask);
  // dk and dv of some heads are rounded when nothing of these heads is read any more.
  const bool rounds = request.outputs[0].dtype == Dtype::bf16;
  if (rounds) pairs.insert(pairs.end(), {{.input = 2, .output = 1}, {.input = 3, .output = 2}});
  return attention_kernel(request.outputs[0].dtype, [&](auto types) {
    return std::make_unique<BackwardKernel<decltype(types)>>(onednn_of(request), problem, request.outputs, pairs);
  });
}

}  // namespace sectionflow

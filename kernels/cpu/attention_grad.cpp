#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/ops/attention.h"
#include "kernels/cpu/attention_kernel.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// Inputs: dy, q, k, v, log sums. Outputs: dq, dk, dv. All but log sums are stored as T. With probabilities P and dP =
/// dy v^T, both [T, S]: dS = P (dP - sum over keys of P dP) scale, dv = P^T dy, dk = dS^T q, dq = dS k. Sums of tiles
/// are f32: of bf16 in workspace, for the heads of a tile, from where they are rounded when their last tile is done.
template <class Types>
class BackwardKernel final : public AttentionKernel<Types> {
  using Base = AttentionKernel<Types>;
  using T = typename Base::T;
  using F = typename Base::F;
  using Base::calls_;
  using Base::geometry_;
  using Base::scratch_;
  using Base::tiling_;
  using Base::workspace_;

 public:
  BackwardKernel(OneDnn& onednn, const AttentionGeometry& geometry, std::vector<InPlace> in_place)
      : Base(onednn, geometry, true, std::move(in_place)) {
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
      const std::int64_t count = geometry_.heads * geometry_.keys * geometry_.width;
      for (int index : {1, 2}) fill_with_zeros(output(arguments, index), count);
    }
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) run(tiling_.tile(i), arguments);
  }

 private:
  static T* output(const KernelArguments& arguments, int index) { return static_cast<T*>(arguments.outputs[index]); }

  template <class Element>
  static void fill_with_zeros(Element* x, std::int64_t count) {
    parallel_for(count, kParallelGrain,
                 [x](std::int64_t begin, std::int64_t end) { std::fill(x + begin, x + end, Element{}); });
  }

  /// Several tiles add to one row of dk and dv.
  bool adds_parts() const { return tiling_.cuts_queries || tiling_.cuts_keys; }

  void run(const AttentionTile& tile, const KernelArguments& arguments) {
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
    score_gradients(tile, static_cast<const float*>(arguments.inputs[4]),
                    {scores, gradients, probabilities, score_weights});
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

  /// From scores to probabilities, and from dP to dS; both 0 where a query does not see the key.
  void score_gradients(const AttentionTile& tile, const float* log_sums, const Scores& of) const {
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t query = tile.query + row % tile.num_queries;
        const std::int64_t head = tile.head + row / tile.num_queries;
        const std::int64_t seen = geometry_.keys_of(query, tile.num_keys);
        const float log_sum = log_sums[head * geometry_.queries + query], scale = geometry_.scale;
        float* p = of.scores + row * tile.num_keys;      // [K]
        float* dp = of.gradients + row * tile.num_keys;  // [K]
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) p[key] = vector_math::exp(p[key] * scale - log_sum);
        const auto mean = static_cast<float>(row_sum(seen, [p, dp](std::int64_t key) { return p[key] * dp[key]; }));
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) dp[key] = p[key] * (dp[key] - mean) * scale;
        for (const auto& [from, all] : {std::pair(p, of.probabilities), {dp, of.score_weights}}) {
          F* to = all + row * tile.num_keys;
          if constexpr (Types::kRoundsWeights) convert_row(to, from, seen);
          std::fill(to + seen, to + tile.num_keys, F(0.0F));
        }
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
    if constexpr (!Types::kIsBf16) sums = output(arguments, index) + scratch_.k_rows.at(tile.head, 0);
    OneDnnCall& product = calls_.of(tile).by_queries;
    if (adds_parts()) {
      float* partial = Base::template part<float>(arguments, part_at_);
      if (tile.query == 0) fill_with_zeros(sums, tile.num_heads * geometry_.keys * geometry_.width);
      product.launch({weights, rows, partial}, this->scratchpad(arguments));
      add_part(tile, partial, sums);
    } else {
      product.launch({weights, rows, sums}, this->scratchpad(arguments));
    }
  }

  void round_key_gradients(const AttentionTile& tile, const KernelArguments& arguments) const {
    const std::int64_t num_rows = tile.num_heads * geometry_.keys, width = geometry_.width;
    for (const int index : {1, 2}) {
      T* dx = output(arguments, index) + scratch_.k_rows.at(tile.head, 0);
      convert_rows(dx, width, sums_of(arguments, index), width, num_rows, width);
    }
  }

  void add_part(const AttentionTile& tile, const float* partial, float* sums) const {
    for_each_piece(tile.num_heads, tile.num_keys,
                   [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
                     const float* from = partial + first * geometry_.width;
                     float* to = sums + scratch_.k_rows.at(head, row);
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

  std::size_t dy_at_ = 0, part_at_ = 0, v_at_ = 0, gradients_at_ = 0, gradient_weights_at_ = 0;
  std::array<std::size_t, 2> sums_at_{};  // of dk and dv
};

}  // namespace

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const AttentionGeometry geometry(request.inputs[1].shape, request.inputs[2].shape,
                                   request.node.options<AttentionOptions>());
  std::vector<InPlace> pairs = attention_pairs(request.node, {0, 1}, 2);
  // dk and dv of some heads are rounded when nothing of these heads is read any more.
  const bool rounds = request.outputs[0].dtype == Dtype::bf16;
  if (rounds) pairs.insert(pairs.end(), {{.input = 2, .output = 1}, {.input = 3, .output = 2}});
  return attention_kernel(request.outputs[0].dtype, [&](auto types) {
    return std::make_unique<BackwardKernel<decltype(types)>>(onednn_of(request), geometry, pairs);
  });
}

}  // namespace sectionflow

#include "graph/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// Inputs: q, k, v. Outputs: y, log sums. All but log sums are stored as T.
template <class Types>
class ForwardKernel final : public AttentionKernel<Types> {
  using Base = AttentionKernel<Types>;
  using T = typename Base::T;
  using F = typename Base::F;
  using Base::calls_;
  using Base::geometry_;
  using Base::scratch_;
  using Base::tiling_;
  using Base::workspace_;

 public:
  ForwardKernel(OneDnn& onednn, const AttentionGeometry& geometry, bool has_log_sums, std::vector<InPlace> in_place)
      : Base(onednn, geometry, false, std::move(in_place)), has_log_sums_(has_log_sums) {
    v_at_ = scratch_.keeps_keys ? workspace_.add(scratch_.packed_key_bytes) : scratch_.k_at;
    y_at_ = scratch_.has_tiles ? scratch_.q_at : workspace_.add(scratch_.query_bytes);
    factors_at_ = workspace_.add(AttentionScratch::bytes(tiling_.max_heads * tiling_.max_queries));
  }

  void launch(const KernelArguments& arguments) override {
    float* scores = Base::template part<float>(arguments, scratch_.scores_at);
    float* factors = Base::template part<float>(arguments, factors_at_);
    F* weights = this->weights(arguments, scratch_.scores_at, scratch_.weights_at);
    void* pad = this->scratchpad(arguments);
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) {
      const AttentionTile tile = tiling_.tile(i);
      AttentionProducts& products = calls_.of(tile);
      const F* q = this->packed_queries(arguments, 0, tile, scratch_.q_at);
      const F* k = this->packed_keys(arguments, 1, tile, scratch_.k_at);
      products.by_keys.launch({q, k, scores}, pad);
      exponentials(tile, scores, weights, factors, static_cast<float*>(arguments.outputs[1]));
      // Keys are read no more when values are packed over them, nor queries when the tile of y is written over them.
      const F* v = this->packed_keys(arguments, 2, tile, v_at_);
      float* tile_y = Base::template part<float>(arguments, y_at_);
      products.times_keys.launch({weights, v, tile_y}, pad);
      write_y(tile, tile_y, factors, static_cast<T*>(arguments.outputs[0]));
    }
  }

 private:
  /// weights = exp(scale scores - their maximum), 0 where a query does not see the key; factor = 1 / their sum. Scores
  /// are overwritten.
  void exponentials(const AttentionTile& tile, float* scores, F* weights, float* factors, float* log_sums) const {
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t query = tile.query + row % tile.num_queries;
        const std::int64_t seen = geometry_.keys_of(query, tile.num_keys);
        float* x = scores + row * tile.num_keys;  // [K]
        const float scale = geometry_.scale;
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) x[key] = x[key] * scale;
        const float shift = row_max(x, seen);
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) x[key] = vector_math::exp(x[key] - shift);
        const double sum = row_sum(seen, [x](std::int64_t key) { return x[key]; });
        F* weight = weights + row * tile.num_keys;  // [K]
        if constexpr (Types::kRoundsWeights) convert_row(weight, x, seen);
        std::fill(weight + seen, weight + tile.num_keys, F(0.0F));
        factors[row] = static_cast<float>(1.0 / sum);
        const std::int64_t head = tile.head + row / tile.num_queries;
        if (!has_log_sums_) log_sums[head * geometry_.queries + query] = static_cast<float>(shift + std::log(sum));
      }
    });
  }

  void write_y(const AttentionTile& tile, const float* tile_y, const float* factors, T* y) const {
    const std::int64_t width = geometry_.width;
    for_each_piece(tile.num_heads, tile.num_queries,
                   [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
                     const float* from = tile_y + first * width;
                     T* to = y + scratch_.q_rows.at(tile.head + head, tile.query + row);
                     for (std::int64_t i = 0; i < count; ++i, from += width, to += width) {
                       const float factor = factors[first + i];
#pragma omp simd
                       for (std::int64_t c = 0; c < width; ++c) to[c] = stored<T>(from[c] * factor);
                     }
                   });
  }

  bool has_log_sums_;  // output 1 is already there
  std::size_t v_at_ = 0, y_at_ = 0, factors_at_ = 0;
};

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const AttentionGeometry geometry(request.inputs[0].shape, request.inputs[1].shape,
                                   request.node.options<AttentionOptions>());
  return attention_kernel(request.outputs[0].dtype, [&](auto types) {
    return std::make_unique<ForwardKernel<decltype(types)>>(onednn_of(request), geometry, request.replay,
                                                            attention_pairs(request.node, {0}, 1));
  });
}

}  // namespace

void add_attention_cpu_kernels(KernelRegistry& registry) {
  registry.add("attention", onednn_factory<make_attention>, Bf16::native);
  registry.add("attention_grad", onednn_factory<make_attention_grad>, Bf16::native);
}

}  // namespace sectionflow

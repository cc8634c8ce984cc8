#include "graph/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/vector_math.h"

namespace sectionflow {
namespace {

/// Inputs: q, k, v, and what limits and drops say. Outputs: y, log sums. All but log sums are stored as T.
template <class Types>
class ForwardKernel final : public AttentionKernel<Types> {
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
  ForwardKernel(OneDnn& onednn, const AttentionProblem& problem, bool has_log_sums, std::vector<InPlace> in_place)
      : Base(onednn, problem, false, std::move(in_place)), has_log_sums_(has_log_sums) {
    v_at_ = scratch_.keeps_keys ? workspace_.add(scratch_.packed_key_bytes) : scratch_.k_at;
    y_at_ = scratch_.has_tiles ? scratch_.q_at : workspace_.add(scratch_.query_bytes);
    factors_at_ = workspace_.add(AttentionScratch::bytes(tiling_.max_heads * tiling_.max_queries));
  }

  void launch(const KernelArguments& arguments) override {
    float* scores = Base::template part<float>(arguments, scratch_.scores_at);
    float* factors = Base::template part<float>(arguments, factors_at_);
    F* weights = this->weights(arguments, scratch_.scores_at, scratch_.weights_at);
    void* pad = this->scratchpad(arguments);
    const AttentionMask mask = limits_.of(arguments);
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) {
      const AttentionTile tile = this->tile_of(i, mask);
      AttentionProducts& products = calls_.of(tile);
      const F* q = this->packed_queries(arguments, 0, tile, scratch_.q_at);
      const F* k = this->packed_keys(arguments, 1, tile, scratch_.k_at);
      products.by_keys.launch({q, k, scores}, pad);
      exponentials(tile, mask, arguments, {scores, factors, weights});
      // Keys are read no more when values are packed over them, nor queries when the tile of y is written over them.
      const F* v = this->packed_keys(arguments, 2, tile, v_at_);
      float* tile_y = Base::template part<float>(arguments, y_at_);
      products.times_keys.launch({weights, v, tile_y}, pad);
      write_y(tile, tile_y, factors, static_cast<T*>(arguments.outputs[0]));
    }
  }

 private:
  struct Scores {
    float *scores, *factors;
    F* weights;
  };

  /// weights = exp(scale scores - their maximum), 0 where a query does not see the key; factor = 1 / their sum. Scores
  /// are overwritten.
  void exponentials(const AttentionTile& tile, const AttentionMask& mask, const KernelArguments& arguments,
                    const Scores& of) const {
    auto* log_sums = static_cast<float*>(arguments.outputs[1]);
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t query = tile.query + row % tile.num_queries;
        const std::int64_t head = tile.head + row / tile.num_queries;
        const SeenKeys keys = this->seen_keys(tile, mask, head, query);
        const std::int64_t first = tile.first_key + keys.first, seen = keys.count;
        float* x = of.scores + row * tile.num_keys + keys.first;  // [seen]
        const float scale = geometry_.scale;
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) x[key] = x[key] * scale;
        if (mask.has_mask()) mask_row(mask, mask.row_of(geometry_, head, query) + first, seen, x);
        const float shift = row_max(x, seen);
        const bool sees_none = seen == 0 || (mask.has_mask() && hides_all(shift, x, seen));
        F* weight = of.weights + row * tile.num_keys;  // [K]
        std::fill(weight, weight + keys.first, F(0.0F));
        double sum = 0;
        if (sees_none) {
          std::fill(x, x + seen, 0.0F);
        } else {
#pragma omp simd
          for (std::int64_t key = 0; key < seen; ++key) x[key] = vector_math::exp(x[key] - shift);
          sum = row_sum(seen, [x](std::int64_t key) { return x[key]; });
        }
        if (drop_.drops) drop_row(drop_, arguments.random, this->random_place(head, query, first), seen, x);
        if constexpr (Types::kRoundsWeights) convert_row(weight + keys.first, x, seen);
        std::fill(weight + keys.first + seen, weight + tile.num_keys, F(0.0F));
        of.factors[row] = sees_none ? 0 : static_cast<float>(1.0 / sum);
        if (has_log_sums_) continue;
        log_sums[head * geometry_.queries + query] =
            sees_none ? kLogOfNothing : static_cast<float>(shift + std::log(sum));
      }
    });
  }

  /// Whether all scores, of which `most` is the largest, are -infinity. NaN is not.
  static bool hides_all(float most, const float* x, std::int64_t count) {
    return most == -std::numeric_limits<float>::infinity() &&
           std::all_of(x, x + count, [](float score) { return score == -std::numeric_limits<float>::infinity(); });
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
  const auto& options = request.node.options<AttentionNodeOptions>();
  const AttentionLimits limits(request, 3);
  const AttentionProblem problem{AttentionGeometry(request.inputs[0].shape, request.inputs[1].shape, options), limits,
                                 AttentionDrop(request, 3, request.node.random_ordinal())};
  return attention_kernel(request.outputs[0].dtype, [&](auto types) {
    return std::make_unique<ForwardKernel<decltype(types)>>(onednn_of(request), problem, request.replay,
                                                            attention_pairs(request.node, {0}, 1, limits.at.mask));
  });
}

}  // namespace

void add_attention_cpu_kernels(KernelRegistry& registry) {
  for (const char* op : {"attention", "attention_dropout"}) {
    registry.add(op, onednn_factory<make_attention>, Bf16::native);
  }
  for (const char* op : {"attention_grad", "attention_dropout_grad"}) {
    registry.add(op, onednn_factory<make_attention_grad>, Bf16::native);
  }
}

}  // namespace sectionflow

#include "graph/ops/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/rows.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"
#include "kernels/vector_math.h"

// Source: Dao et al. 2022, FlashAttention, for tiles whose probabilities are computed again in the backward pass. Here
// oneDNN multiplies the tiles of some heads at a time, on the whole team, and own loops between do the rest.

namespace sectionflow {
namespace {

/// Calls `body(first, head, row, num_rows)` for pieces of `heads` blocks of `rows` rows, on the compute team: rows of
/// one head from `row` on, of which the first is row `first` of all.
template <class Body>
void for_each_piece(std::int64_t heads, std::int64_t rows, const Body& body) {
  constexpr std::int64_t kGrainRows = 32;
  parallel_for(heads * rows, kGrainRows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end;) {
      const std::int64_t row = first % rows;
      const std::int64_t num_rows = std::min(end - first, rows - row);
      body(first, first / rows, row, num_rows);
      first += num_rows;
    }
  });
}

/// A tensor [heads, rows, width] in which a tile has rows of its own.
struct Rows {
  std::int64_t rows, width;

  std::int64_t at(std::int64_t head, std::int64_t row) const { return (head * rows + row) * width; }
};

/// The rows from `first_row` on of a tile's heads, of elements that are stored as T, densely and as f32: where they lie
/// if they are so there, else in `packed`.
template <class T>
const float* packed_rows(const T* x, const Rows& of, const AttentionTile& tile, std::int64_t first_row,
                         std::int64_t num_rows, float* packed) {
  if constexpr (std::is_same_v<T, float>) {
    if (num_rows == of.rows) return x + of.at(tile.head, 0);
  }
  for_each_piece(
      tile.num_heads, num_rows, [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
        convert_row(packed + first * of.width, x + of.at(tile.head + head, first_row + row), count * of.width);
      });
  return packed;
}

/// Rows of scores that are worth a second thread.
std::int64_t score_grain(std::int64_t num_keys) {
  constexpr std::int64_t kExponentialsAThread = 2048;
  return std::max<std::int64_t>(1, kExponentialsAThread / num_keys);
}

/// Parts of the workspace that both directions have.
struct Scratch {
  Scratch(const AttentionGeometry& g, const AttentionTiling& tiling, bool is_bf16, WorkspaceLayout& workspace)
      : q_rows{g.queries, g.width}, k_rows{g.keys, g.width} {
    query_bytes = bytes(tiling.max_heads * tiling.max_queries * g.width);
    key_bytes = bytes(tiling.max_heads * g.keys * g.width);
    score_bytes = bytes(tiling.max_heads * tiling.max_queries * g.keys);
    packs_queries = is_bf16 || tiling.cuts_queries;
    packs_keys = is_bf16 || tiling.cuts_keys;
    keeps_keys = is_bf16 && tiling.cuts_queries && !tiling.cuts_keys;
    if (packs_queries) q_at = workspace.add(query_bytes);
    if (packs_keys) k_at = workspace.add(key_bytes);
    scores_at = workspace.add(score_bytes);
  }
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

  Rows q_rows, k_rows;
  std::size_t query_bytes, key_bytes, score_bytes;
  bool packs_queries, packs_keys;  // they do not lie in the tensor as tiles need them
  bool keeps_keys;                 // all tiles of some heads need the same packed keys and values
  std::size_t q_at = 0, k_at = 0, scores_at = 0;
};

class AttentionKernel : public Kernel {
 public:
  std::string implementation() const override { return calls_.implementation(); }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return calls_.library_bytes(); }
  std::vector<InPlace> in_place() const override { return in_place_; }

 protected:
  AttentionKernel(OneDnn& onednn, const AttentionGeometry& geometry, bool for_gradient, bool is_bf16,
                  std::vector<InPlace> in_place)
      : geometry_(geometry),
        tiling_(geometry),
        calls_(onednn, geometry, tiling_, for_gradient),
        scratch_(geometry, tiling_, is_bf16, workspace_),
        scratchpad_at_(workspace_.add(calls_.scratchpad_bytes())),
        in_place_(std::move(in_place)) {}

  static float* part(const KernelArguments& arguments, std::size_t at) {
    return static_cast<float*>(workspace_part(arguments.workspace, at));
  }
  void* scratchpad(const KernelArguments& arguments) const {
    return workspace_part(arguments.workspace, scratchpad_at_);
  }
  template <class T>
  const float* packed_queries(const T* x, const AttentionTile& tile, float* packed) const {
    return packed_rows(x, scratch_.q_rows, tile, tile.query, tile.num_queries, packed);
  }
  template <class T>
  const float* packed_keys(const T* x, const AttentionTile& tile, float* packed) const {
    if (scratch_.keeps_keys && tile.query > 0) return packed;
    return packed_rows(x, scratch_.k_rows, tile, 0, tile.num_keys, packed);
  }

  AttentionGeometry geometry_;
  AttentionTiling tiling_;
  AttentionCalls calls_;
  WorkspaceLayout workspace_;
  Scratch scratch_;
  std::size_t scratchpad_at_;

 private:
  std::vector<InPlace> in_place_;
};

/// Inputs: q, k, v. Outputs: y, log sums. All but log sums are stored as T.
template <class T>
class ForwardKernel final : public AttentionKernel {
 public:
  ForwardKernel(OneDnn& onednn, const AttentionGeometry& geometry, bool has_log_sums, std::vector<InPlace> in_place)
      : AttentionKernel(onednn, geometry, false, std::is_same_v<T, BFloat16>, std::move(in_place)),
        has_log_sums_(has_log_sums) {
    v_at_ = scratch_.keeps_keys ? workspace_.add(scratch_.key_bytes) : scratch_.k_at;
    y_at_ = scratch_.packs_queries ? scratch_.q_at : workspace_.add(scratch_.query_bytes);
    factors_at_ = workspace_.add(Scratch::bytes(tiling_.max_heads * tiling_.max_queries));
  }

  void launch(const KernelArguments& arguments) override {
    const auto input = [&](int index) { return static_cast<const T*>(arguments.inputs[index]); };
    float* scores = part(arguments, scratch_.scores_at);
    float* factors = part(arguments, factors_at_);
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) {
      const AttentionTile tile = tiling_.tile(i);
      AttentionProducts& products = calls_.of(tile);
      const float* q = packed_queries(input(0), tile, part(arguments, scratch_.q_at));
      const float* k = packed_keys(input(1), tile, part(arguments, scratch_.k_at));
      products.by_keys.launch({q, k, scores}, scratchpad(arguments));
      exponentials(tile, scores, factors, static_cast<float*>(arguments.outputs[1]));
      // Keys are read no more when values are packed over them, nor queries when the tile of y is written over them.
      const float* v = packed_keys(input(2), tile, part(arguments, v_at_));
      float* tile_y = part(arguments, y_at_);
      products.times_keys.launch({scores, v, tile_y}, scratchpad(arguments));
      write_y(tile, tile_y, factors, static_cast<T*>(arguments.outputs[0]));
    }
  }

 private:
  /// scores = exp(scale scores - their maximum), 0 where a query does not see the key; factor = 1 / their sum.
  void exponentials(const AttentionTile& tile, float* scores, float* factors, float* log_sums) const {
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
        std::fill(x + seen, x + tile.num_keys, 0.0F);
        const double sum = row_sum(seen, [x](std::int64_t key) { return x[key]; });
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

/// Inputs: dy, q, k, v, log sums. Outputs: dq, dk, dv. All but log sums are stored as T. With probabilities P and dP =
/// dy v^T, both [T, S]: dS = P (dP - sum over keys of P dP) scale, dv = P^T dy, dk = dS^T q, dq = dS k. Sums of tiles
/// are f32: of bf16 in workspace, for the heads of a tile, from where they are rounded when their last tile is done.
template <class T>
class BackwardKernel final : public AttentionKernel {
 public:
  BackwardKernel(OneDnn& onednn, const AttentionGeometry& geometry, std::vector<InPlace> in_place)
      : AttentionKernel(onednn, geometry, true, kIsBf16, std::move(in_place)) {
    if (scratch_.packs_queries) dy_at_ = workspace_.add(scratch_.query_bytes);
    if (scratch_.packs_keys || adds_parts()) part_at_ = workspace_.add(scratch_.key_bytes);
    v_at_ = scratch_.keeps_keys ? workspace_.add(scratch_.key_bytes) : part_at_;
    sums_at_ = {part_at_, part_at_};
    if (kIsBf16 && adds_parts()) {
      for (std::size_t& at : sums_at_) at = workspace_.add(scratch_.key_bytes);
    }
    gradients_at_ = workspace_.add(scratch_.score_bytes);
  }

  void launch(const KernelArguments& arguments) override {
    if (tiling_.num_tiles() == 0) {
      const std::int64_t count = geometry_.heads * geometry_.keys * geometry_.width;
      for (int index : {1, 2}) fill_with_zeros(output(arguments, index), count);
    }
    for (std::int64_t i = 0; i < tiling_.num_tiles(); ++i) run(tiling_.tile(i), arguments);
  }

 private:
  static constexpr bool kIsBf16 = std::is_same_v<T, BFloat16>;

  static const T* input(const KernelArguments& arguments, int index) {
    return static_cast<const T*>(arguments.inputs[index]);
  }
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
    void* pad = scratchpad(arguments);
    const float* dy = packed_queries(input(arguments, 0), tile, part(arguments, dy_at_));
    const float* q = packed_queries(input(arguments, 1), tile, part(arguments, scratch_.q_at));
    const float* k = packed_keys(input(arguments, 2), tile, part(arguments, scratch_.k_at));
    const float* v = packed_keys(input(arguments, 3), tile, part(arguments, v_at_));
    float* probabilities = part(arguments, scratch_.scores_at);
    float* gradients = part(arguments, gradients_at_);
    products.by_keys.launch({q, k, probabilities}, pad);
    products.by_keys.launch({dy, v, gradients}, pad);
    score_gradients(tile, static_cast<const float*>(arguments.inputs[4]), probabilities, gradients);
    // Values are read no more when something is written over them.
    add_key_gradient(tile, arguments, 2, probabilities, dy);
    add_key_gradient(tile, arguments, 1, gradients, q);
    T* dq = output(arguments, 0);
    if (!scratch_.packs_queries) {
      products.times_keys.launch({gradients, k, dq + scratch_.q_rows.at(tile.head, 0)}, pad);
      return;
    }
    float* tile_dq = part(arguments, scratch_.q_at);  // q is read no more
    products.times_keys.launch({gradients, k, tile_dq}, pad);
    write_dq(tile, tile_dq, dq);
  }

  /// From scores to probabilities, and from dP to dS; both 0 where a query does not see the key.
  void score_gradients(const AttentionTile& tile, const float* log_sums, float* scores, float* gradients) const {
    parallel_for(tile.num_rows(), score_grain(tile.num_keys), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t query = tile.query + row % tile.num_queries;
        const std::int64_t head = tile.head + row / tile.num_queries;
        const std::int64_t seen = geometry_.keys_of(query, tile.num_keys);
        const float log_sum = log_sums[head * geometry_.queries + query], scale = geometry_.scale;
        float* p = scores + row * tile.num_keys;      // [K]
        float* dp = gradients + row * tile.num_keys;  // [K]
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) p[key] = vector_math::exp(p[key] * scale - log_sum);
        const auto mean = static_cast<float>(row_sum(seen, [p, dp](std::int64_t key) { return p[key] * dp[key]; }));
#pragma omp simd
        for (std::int64_t key = 0; key < seen; ++key) dp[key] = p[key] * (dp[key] - mean) * scale;
        std::fill(p + seen, p + tile.num_keys, 0.0F);
        std::fill(dp + seen, dp + tile.num_keys, 0.0F);
      }
    });
  }

  /// dk or dv, output `index`, of the tile's heads: weights^T rows, added to what earlier tiles of these heads gave.
  void add_key_gradient(const AttentionTile& tile, const KernelArguments& arguments, int index, const float* weights,
                        const float* rows) {
    T* dx = output(arguments, index) + scratch_.k_rows.at(tile.head, 0);
    float* sums = part(arguments, sums_at_[static_cast<std::size_t>(index - 1)]);  // [heads, S, D]
    if constexpr (!kIsBf16) sums = dx;
    OneDnnCall& product = calls_.of(tile).by_queries;
    if (adds_parts()) {
      float* partial = part(arguments, part_at_);
      if (tile.query == 0) fill_with_zeros(sums, tile.num_heads * geometry_.keys * geometry_.width);
      product.launch({weights, rows, partial}, scratchpad(arguments));
      add_part(tile, partial, sums);
    } else {
      product.launch({weights, rows, sums}, scratchpad(arguments));
    }
    if constexpr (kIsBf16) {
      const bool is_last = tile.query + tile.num_queries == geometry_.queries;
      const std::int64_t num_rows = tile.num_heads * geometry_.keys, width = geometry_.width;
      if (is_last) convert_rows(dx, width, sums, width, num_rows, width);
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

  std::size_t dy_at_ = 0, part_at_ = 0, v_at_ = 0, gradients_at_ = 0;
  std::array<std::size_t, 2> sums_at_{};  // of dk and dv
};

std::unique_ptr<Kernel> make_attention(const KernelRequest& request) {
  const AttentionGeometry geometry(request.inputs[0].shape, request.inputs[1].shape,
                                   request.node.options<AttentionOptions>());
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    return std::make_unique<ForwardKernel<decltype(element)>>(onednn_of(request), geometry, request.replay,
                                                              attention_pairs(request.node, {0}, 1));
  });
}

std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request) {
  const AttentionGeometry geometry(request.inputs[1].shape, request.inputs[2].shape,
                                   request.node.options<AttentionOptions>());
  std::vector<InPlace> pairs = attention_pairs(request.node, {0, 1}, 2);
  return with_stored_type(request.outputs[0].dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    // dk and dv of some heads are rounded when nothing of these heads is read any more.
    if (std::is_same_v<T, BFloat16>) pairs.insert(pairs.end(), {{.input = 2, .output = 1}, {.input = 3, .output = 2}});
    return std::make_unique<BackwardKernel<T>>(onednn_of(request), geometry, std::move(pairs));
  });
}

}  // namespace

void add_attention_cpu_kernels(KernelRegistry& registry) {
  registry.add("attention", onednn_factory<make_attention>, Bf16::native);
  registry.add("attention_grad", onednn_factory<make_attention_grad>, Bf16::native);
}

}  // namespace sectionflow

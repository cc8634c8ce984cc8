#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "device/instruction_set.h"
#include "device/parallel.h"
#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/random_words.h"
#include "kernels/cpu/rows.h"
#include "kernels/function_kernel.h"

// Source: Dao et al. 2022, FlashAttention, for tiles whose probabilities are computed again in the backward pass. Here
// oneDNN multiplies the tiles of some heads at a time, on the whole team, and own loops between do the rest.

namespace sectionflow {

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

/// Rows of neighbouring heads: of each, those from `row` on.
struct RowBlock {
  std::int64_t head, num_heads, row, num_rows;
};

/// A block's rows, of elements that are stored as T, densely and as factors F: where they lie if they are so there,
/// else in `packed`.
template <class F, class T>
const F* packed_rows(const T* x, const Rows& of, const RowBlock& block, F* packed) {
  if constexpr (std::is_same_v<T, F>) {
    if (block.num_rows == of.rows) return x + of.at(block.head, 0);
  }
  for_each_piece(block.num_heads, block.num_rows,
                 [&](std::int64_t first, std::int64_t head, std::int64_t row, std::int64_t count) {
                   convert_row(packed + first * of.width, x + of.at(block.head + head, block.row + row),
                               count * of.width);
                 });
  return packed;
}

/// Rows of scores that are worth a second thread.
inline std::int64_t score_grain(std::int64_t num_keys) {
  constexpr std::int64_t kExponentialsAThread = 2048;
  return std::max<std::int64_t>(1, kExponentialsAThread / num_keys);
}

/// What a mask makes of the scores of `count` keys, whose first place in it is `at`.
inline void mask_row(const AttentionMask& mask, std::int64_t at, std::int64_t count, float* x) {
  if (mask.added != nullptr) {
    const float* added = mask.added + at;
#pragma omp simd
    for (std::int64_t key = 0; key < count; ++key) x[key] = x[key] + added[key];
  } else {
    for (std::int64_t key = 0; key < count; ++key) x[key] = mask.masked(x[key], at + key);
  }
}

/// x = what is left of it of the probabilities of `count` keys, of which the first has the place `at` among random
/// words.
inline void drop_row(const AttentionDrop& drop, RandomAddress address, std::int64_t at, std::int64_t count, float* x) {
  constexpr std::int64_t kPiece = 1024;  // probabilities whose words lie on the stack
  address.node = drop.ordinal;
  std::uint32_t words[kPiece + 4];
  for (std::int64_t first = 0; first < count; first += kPiece) {
    const std::int64_t length = std::min(kPiece, count - first), lead = (at + first) % 4;
    fill_random_words_in_vectors(address, static_cast<std::uint64_t>(at + first) / 4, (lead + length + 3) / 4, words);
#pragma omp simd
    for (std::int64_t i = 0; i < length; ++i) x[first + i] = drop.drop(x[first + i], words[lead + i]);
  }
}

/// The keys of a tile that a row of it sees, from its first one on.
struct SeenKeys {
  std::int64_t first, count;
};

/// What a kernel is about.
struct AttentionProblem {
  AttentionGeometry geometry;
  AttentionLimits limits;
  AttentionDrop drop;
};

/// How the tensors of attention are stored, and what its products take: bf16 where the machine multiplies it. Scores
/// and sums are f32.
template <class Stored, class Multiplied>
struct AttentionTypes {
  using T = Stored;
  using F = Multiplied;
  static constexpr bool kIsBf16 = std::is_same_v<T, BFloat16>;
  static constexpr bool kConverts = !std::is_same_v<T, F>;
  static constexpr bool kRoundsWeights = !std::is_same_v<F, float>;  ///< before they are multiplied
};

/// Parts of the workspace that both directions have.
struct AttentionScratch {
  template <class Types>
  AttentionScratch(const AttentionGeometry& g, const AttentionTiling& tiling, Types /*types*/,
                   WorkspaceLayout& workspace)
      : q_rows{g.queries, g.width}, k_rows{g.keys, g.width} {
    query_bytes = bytes(tiling.max_heads * tiling.max_queries * g.width);
    key_bytes = bytes(tiling.max_heads / g.group * g.keys * g.width);
    packed_key_bytes = key_bytes / sizeof(float) * sizeof(typename Types::F);
    score_bytes = bytes(tiling.max_heads * tiling.max_queries * tiling.max_keys);
    weight_bytes = Types::kRoundsWeights ? score_bytes / sizeof(float) * sizeof(typename Types::F) : 0;
    has_tiles = Types::kIsBf16 || tiling.cuts_queries;
    packs_keys = Types::kConverts || tiling.cuts_keys;
    keeps_keys = Types::kConverts && tiling.cuts_queries && !tiling.cuts_keys;
    if (has_tiles) q_at = workspace.add(query_bytes);
    if (packs_keys) k_at = workspace.add(packed_key_bytes);
    scores_at = workspace.add(score_bytes);
    if (Types::kRoundsWeights) weights_at = workspace.add(weight_bytes);
  }
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

  Rows q_rows, k_rows;
  std::size_t query_bytes, key_bytes, packed_key_bytes, score_bytes, weight_bytes;
  bool has_tiles;   // what has the queries' shape is not written where it is to lie, but in a tile, and may be packed
                    // there
  bool packs_keys;  // they do not lie in the tensor as tiles need them
  bool keeps_keys;  // all tiles of some heads need the same packed keys and values
  std::size_t q_at = 0, k_at = 0, scores_at = 0, weights_at = 0;
};

template <class Types>
class AttentionKernel : public Kernel {
 public:
  std::string implementation() const override {
    return (Types::kConverts ? "f32 for tiles of bf16: " : "") + calls_.implementation();
  }
  std::size_t workspace_bytes() const override { return workspace_.num_bytes(); }
  std::size_t library_bytes() const override { return calls_.library_bytes(); }
  std::vector<InPlace> in_place() const override { return in_place_; }
  bool are_jit() const { return calls_.are_jit(); }

 protected:
  using T = typename Types::T;
  using F = typename Types::F;

  AttentionKernel(OneDnn& onednn, const AttentionProblem& problem, bool for_gradient, std::vector<InPlace> in_place)
      : geometry_(problem.geometry),
        limits_(problem.limits),
        drop_(problem.drop),
        tiling_(geometry_, dtype_of<F>, limits_.has_lengths()),
        calls_(onednn, geometry_, tiling_, for_gradient, dtype_of<F>),
        scratch_(geometry_, tiling_, Types(), workspace_),
        scratchpad_at_(workspace_.add(calls_.scratchpad_bytes())),
        in_place_(std::move(in_place)) {}

  template <class Element>
  static Element* part(const KernelArguments& arguments, std::size_t at) {
    return static_cast<Element*>(workspace_part(arguments.workspace, at));
  }
  void* scratchpad(const KernelArguments& arguments) const {
    return workspace_part(arguments.workspace, scratchpad_at_);
  }
  const F* packed_queries(const KernelArguments& arguments, int input, const AttentionTile& tile,
                          std::size_t at) const {
    return packed_rows(static_cast<const T*>(arguments.inputs[input]), scratch_.q_rows,
                       {tile.head, tile.num_heads, tile.query, tile.num_queries}, part<F>(arguments, at));
  }
  const F* packed_keys(const KernelArguments& arguments, int input, const AttentionTile& tile, std::size_t at) const {
    F* packed = part<F>(arguments, at);
    if (scratch_.keeps_keys && tile.query > 0) return packed;
    return packed_rows(static_cast<const T*>(arguments.inputs[input]), scratch_.k_rows, keys_of(tile), packed);
  }
  RowBlock keys_of(const AttentionTile& tile) const {
    return {tile.head / geometry_.group, tile.num_heads / geometry_.group, tile.first_key, tile.num_keys};
  }
  /// The tile of that number, without keys that no image of it has.
  AttentionTile tile_of(std::int64_t number, const AttentionMask& mask) const {
    const AttentionTile tile = tiling_.tile(number);
    if (!tiling_.has_lengths) return tile;
    const std::int64_t heads = geometry_.heads_of_image, end = tile.head + tile.num_heads;
    std::int64_t length = 0;
    for (std::int64_t image = tile.head / heads; image * heads < end; ++image) {
      length = std::max(length, mask.keys_of(image, geometry_.keys));
    }
    return tiling_.shortened(tile, length);
  }
  SeenKeys seen_keys(const AttentionTile& tile, const AttentionMask& mask, std::int64_t head,
                     std::int64_t query) const {
    const std::int64_t there = mask.keys_of(head / geometry_.heads_of_image, geometry_.keys);
    const std::int64_t end = geometry_.keys_of(query, std::min(there, tile.first_key + tile.num_keys));
    const std::int64_t first = geometry_.first_key_of(query);
    return first < end ? SeenKeys{first - tile.first_key, end - first} : SeenKeys{0, 0};
  }
  /// Of key `key` of a query.
  std::int64_t random_place(std::int64_t head, std::int64_t query, std::int64_t key) const {
    return (head * geometry_.queries + query) * geometry_.keys + key;
  }
  /// Where what the products weigh rows by is written: over the scores it is made of, or beside them.
  F* weights(const KernelArguments& arguments, std::size_t scores_at, std::size_t weights_at) const {
    return part<F>(arguments, Types::kRoundsWeights ? weights_at : scores_at);
  }

  AttentionGeometry geometry_;
  AttentionLimits limits_;
  AttentionDrop drop_;
  AttentionTiling tiling_;
  AttentionCalls calls_;
  WorkspaceLayout workspace_;
  AttentionScratch scratch_;
  std::size_t scratchpad_at_;

 private:
  std::vector<InPlace> in_place_;
};

/// `make(types)` for what is stored as `dtype`: products of bf16 where the machine has them, else of f32.
template <class Make>
std::unique_ptr<Kernel> attention_kernel(Dtype dtype, const Make& make) {
  if (dtype != Dtype::bf16) return make(AttentionTypes<float, float>());
  if (multiplies_bf16()) {
    auto kernel = make(AttentionTypes<BFloat16, BFloat16>());
    if (kernel->are_jit()) return kernel;
  }
  return make(AttentionTypes<BFloat16, float>());
}

// In kernels/cpu/attention_grad.cpp.
std::unique_ptr<Kernel> make_attention_grad(const KernelRequest& request);

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/export.h"
#include "graph/blocks.h"
#include "graph/graph.h"
#include "graph/initializer.h"
#include "graph/key_value_cache.h"
#include "graph/ops/attention.h"

namespace SF_API sectionflow {

// Attention with its projections, and the blocks that transformers repeat. What graph/layers.h says of names, variables
// and dtypes holds for them. Throws: ShapeError, ArgumentError, before anything is made.

/// How far places turn pairs of numbers, and which numbers are pairs.
struct RotaryOptions {
  float base = 10000;  ///< finite, > 1
  /// False: number i and i + D / 2 are a pair, as in GPT-NeoX and LLaMA. True: 2 i and 2 i + 1, as in the paper. The
  /// two differ by an order of the columns that make x; the first copies less.
  bool interleaved = false;
  std::int64_t first_position = 0;  ///< of the first row; 0 to 2^40, up to which angles keep three digits and more
};
/// Rotary positions: the pair i of the row at place t is turned by the angle a = t base^(-2 i / D),
/// (x, y) to (x cos a - y sin a, x sin a + y cos a). Products of two rows so depend on the distance of their places. It
/// computes in f32, of tables that are two constants [T, D / 2], which a graph has once for all calls of the same sizes
/// and options; their angles are computed in double.
/// Shapes: x [..., T, D] with T known and D known and even; y like x. f32 or bf16. Source: Su et al. 2021, RoFormer.
Value rotary(Value x, RotaryOptions options = {}, Where where = Where::here());

/// Of the layer multi_head_attention: its heads, which keys they see, and its variables.
struct MultiHeadAttentionOptions {
  std::int64_t heads = 0;       ///< of the queries; must be set
  std::int64_t head_width = 0;  ///< D; 0: C / heads, of which heads are then a divisor
  /// Heads of keys and values; 0: as many as of queries, of which they are a divisor; 1: multi-query. Query head h
  /// reads head h key_value_heads / heads, rounded down; no copies are made for all heads.
  std::int64_t key_value_heads = 0;
  bool causal = false;                                 ///< a query sees the keys up to its own place alone
  CausalAlignment alignment = CausalAlignment::equal;  ///< of causal attention or a window, to a memory
  std::int64_t window = 0;                             ///< > 0: how far a query sees, as AttentionOptions::window
  /// Of padded examples, i32 or i64 [N]: of each the keys 0 to length - 1 are seen (AttentionOptions::key_lengths).
  Value key_lengths{};
  Value mask{};  ///< [N, heads, T, S], boolean or f32 to be added to scores, as AttentionOptions::mask
  /// Of causal attention to the rows of x and to those of runs before, which stand at the places 0 to position - 1. The
  /// rows of x stand at `position` and behind; a row at a place that the cache has not, from its capacity on, is NaN.
  /// What computes the result keeps the keys and values of x. Not with a memory, lengths or a mask.
  KeyValueCache cache{};
  Value position{};                       ///< beside a cache: i64 or i32 [], how many tokens stand before x
  std::optional<float> scale{};           ///< of the products of queries and keys; absent: 1 / sqrt(D)
  std::optional<RotaryOptions> rotary{};  ///< turns queries and keys; not with a memory
  bool bias = true;                       ///< of queries, keys and values
  bool output_bias = true;
  float dropout = 0;              ///< rate, of the output; in [0, 1)
  float probability_dropout = 0;  ///< rate, of probabilities, as torch.nn.MultiheadAttention's; in [0, 1)
  Value is_training{};            ///< of both; invalid: the graph's training flag
  Initializer kernel_initializer = glorot_uniform();
  Initializer output_initializer{};  ///< of the output's kernel; as the others where none is given
  std::string name = "attention";
};
/// Attention of x to itself: y = concat_h(attention(q_h, k_h, v_h)) output/kernel + output/bias, where the heads of
/// queries, keys and values are columns of one product, x qkv/kernel + qkv/bias: all of q, then of k, then of v. The
/// kernels are the transposes of torch.nn.MultiheadAttention's in_proj_weight and out_proj.weight.
/// Shapes: x [N, T, C] with C known, and N or T; qkv/kernel [C, (heads + 2 key_value_heads) D], output/kernel
/// [heads D, C]; y like x. Sources: Vaswani et al. 2017; of fewer key_value_heads Shazeer 2019, Ainslie et al. 2023.
Value multi_head_attention(Value x, const MultiHeadAttentionOptions& options, Where where = Where::here());
/// Attention of x to `memory`, of which keys and values are made. Shapes: x [N, T, C], memory [N, S, M], query/kernel
/// [C, heads D], key_value/kernel [M, 2 key_value_heads D], output/kernel [heads D, C]; y like x.
Value multi_head_attention(Value x, Value memory, const MultiHeadAttentionOptions& options,
                           Where where = Where::here());

/// What a transformer_block normalises by: layer_norm, or rms_norm, which has no shift.
enum class Norm { layer, rms };

/// Of a transformer_block: its two parts, and what stands between them.
struct TransformerBlockOptions {
  MultiHeadAttentionOptions attention{};  ///< heads must be set; dropout and is_training are the block's
  std::int64_t hidden = 0;                ///< width of the feed-forward part; 0: four times that of x
  Activation activation = Activation::gelu;
  bool gated = false;      ///< the hidden layer is a f(b) of two of that width: geglu, reglu, swiglu by the activation
  bool bias = true;        ///< of the feed-forward part
  bool norm_first = true;  ///< false: each sum is normalised, as in the paper
  float epsilon = 1e-5F;   ///< of the norms
  float dropout = 0;       ///< rate, of what each part adds; in [0, 1)
  float drop_path = 0;     ///< rate at which a part adds nothing to an example; in [0, 1)
  Value is_training{};     ///< of all three; invalid: the graph's training flag
  Initializer kernel_initializer = glorot_uniform();  ///< of the feed-forward part
  Initializer output_initializer{};                   ///< of its second kernel; as the first where none is given
  Norm norm = Norm::layer;                            ///< of both parts
  std::string name = "block";
};
/// x + attention(norm1(x)), and of that x + output(f(hidden(norm2(x)))); or, with norm_first false,
/// norm1(x + attention(x)) and of that norm2(x + output(f(hidden(x)))). The variables are `<name>/norm1/scale` and,
/// of Norm::layer, `shift`, those of `<name>/attention` and `<name>/norm2`, `<name>/hidden/kernel` and `bias`,
/// `<name>/output/kernel` and `bias`. It is torch.nn.TransformerEncoderLayer, which drops hidden numbers besides, and
/// probabilities at one rate with the others: `attention.probability_dropout` has a rate of its own.
/// Shapes: x [N, T, C] as multi_head_attention; y like x.
Value transformer_block(Value x, const TransformerBlockOptions& options, Where where = Where::here());

}  // namespace sectionflow

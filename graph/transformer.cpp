#include "graph/transformer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/cached_attention.h"
#include "graph/functions.h"
#include "graph/layers.h"
#include "graph/nodes/layout.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// Throws: ArgumentError unless 0 <= rate < 1.
void check_drop_rate(const std::string& label, const char* option, float rate) {
  SF_CHECK(rate >= 0 && rate < 1, ArgumentError, label, ": ", option, " is ", rate, "; wanted 0 to 1, without 1");
}
/// Throws: ArgumentError for what is given and is no scalar that decides kernels.
void check_training_option(const std::string& label, Value is_training) {
  if (!is_training.valid()) return;
  SF_CHECK(is_training.type() == (TensorType{Dtype::boolean, {}}), ArgumentError, label, ": is_training is ",
           is_training.type().text(), "; wanted bool[], a placeholder or constant");
  check_host_boolean(is_training, label);
}
Value training_of(Value x, Value is_training) {
  return is_training.valid() ? is_training : x.graph().training();
}
/// x itself where the rate is 0, without asking for the training flag.
Value dropped(Value x, float rate, Value is_training) {
  return rate == 0 ? x : dropout(x, training_of(x, is_training), {.rate = rate});
}

// ---- Rotary positions.

void check_rotary(const std::string& label, const RotaryOptions& options, std::int64_t length, std::int64_t width) {
  SF_CHECK(options.base > 1 && std::isfinite(options.base), ArgumentError, label, ": base is ", options.base,
           "; wanted a finite number above 1");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  SF_CHECK(options.first_position >= 0 && options.first_position <= kMost, ArgumentError, label, ": first_position is ",
           options.first_position, "; wanted 0 to ", kMost);
  SF_CHECK(length != kDynamic, ShapeError, label, ": the number of places is not known; wanted it to be",
           hint("pad sequences to one length"));
  SF_CHECK(width > 0 && width % 2 == 0, ShapeError, label, ": rows are of ", dim_text(width),
           " numbers; wanted an even number, pairs");
  check_table_bytes(label, checked_multiply(length, width / 2, label), sizeof(float));
}

/// Of each place and pair, [T, D / 2], with an axis of 1 behind them where pairs lie side by side. f32.
struct RotaryTables {
  Value cosines, sines;
};
RotaryTables new_rotary_tables(Graph& graph, const RotaryOptions& options, std::int64_t length, std::int64_t width) {
  const std::int64_t pairs = width / 2;
  const Shape shape = options.interleaved ? Shape{length, pairs, 1} : Shape{length, pairs};
  HostTensor cosines(Dtype::f32, shape), sines(Dtype::f32, shape);
  const auto cosine_values = cosines.values<float>(), sine_values = sines.values<float>();
  std::size_t at = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t i = 0; i < pairs; ++i, ++at) {
      const double power = -2.0 * static_cast<double>(i) / static_cast<double>(width);
      const double angle =
          static_cast<double>(options.first_position + t) * std::pow(static_cast<double>(options.base), power);
      cosine_values[at] = static_cast<float>(std::cos(angle));
      sine_values[at] = static_cast<float>(std::sin(angle));
    }
  }
  return {constant(graph, std::move(cosines), "/rotary/cosines"), constant(graph, std::move(sines), "/rotary/sines")};
}
/// The same, but that the graph keeps them, in a collection of their numbers: all layers read one pair.
RotaryTables rotary_tables(Graph& graph, const RotaryOptions& options, std::int64_t length, std::int64_t width) {
  const std::string kept = text_of("rotary_tables/", length, "x", width, "/from_", options.first_position, "/base_",
                                   std::bit_cast<std::uint32_t>(options.base), options.interleaved ? "/pairs" : "");
  const std::vector<Value> found = graph.values(kept);
  if (found.size() == 2) return {found[0], found[1]};
  // They belong to no section and to no phase, whoever is the first to ask.
  const GraphScope group = graph.enter_group(kNoGroup), phase = graph.enter_phase(Phase::model);
  const RotaryTables made = new_rotary_tables(graph, options, length, width);
  for (const Value table : {made.cosines, made.sines}) graph.add_to_collection(kept, table);
  return made;
}

/// The rotary positions of x by these tables.
Value turned(Value x, const RotaryTables& tables, bool interleaved) {
  const auto names = x.graph().scope("rotary");
  Value pairs = in_dtype(x, Dtype::f32);
  if (interleaved) {
    std::vector<std::int64_t> dims = x.shape().dims();
    const std::int64_t width = dims.back();
    // Of several sizes that the feed decides, one product.
    if (std::ranges::count(dims, kDynamic) > 1) dims = {kDynamic, x.shape()[-2], width};
    dims.back() /= 2;
    dims.push_back(2);
    pairs = reshape(pairs, Shape(std::move(dims)));
  }
  const std::vector<Value> two = split(pairs, 2, -1);
  const Value y = concat({two[0] * tables.cosines - two[1] * tables.sines,  //
                          two[0] * tables.sines + two[1] * tables.cosines},
                         -1);
  return in_dtype(interleaved ? reshape_like(y, x) : y, x.dtype());
}

// ---- Attention.

/// What is asked for, with defaults filled in.
struct Heads {
  std::int64_t queries, keys, width;
  std::int64_t query_width() const { return queries * width; }
  std::int64_t key_width() const { return keys * width; }
};

/// `role`: x or memory. Throws: ArgumentError, ShapeError.
void check_sequence(const std::string& label, const MultiHeadAttentionOptions& options, const char* role, Value x) {
  check_layer_input(x, "multi_head_attention", options.name);
  const Shape& shape = x.shape();
  const bool fits = shape.rank() == 3 && shape[2] > 0 && (shape[0] != kDynamic || shape[1] != kDynamic);
  SF_CHECK(fits, ShapeError, label, ": ", role, " is ", shape, "; wanted [N, T, C] with C known, and N or T",
           hint("pad sequences to one length T, or give the placeholder its N"));
}

Heads heads_of(const std::string& label, const MultiHeadAttentionOptions& options, std::int64_t channels) {
  SF_CHECK(options.heads > 0, ArgumentError, label, ": heads is ", options.heads, "; wanted > 0");
  SF_CHECK(options.head_width >= 0, ArgumentError, label, ": head_width is ", options.head_width,
           "; wanted > 0, or 0 for C / heads");
  SF_CHECK(options.head_width > 0 || channels % options.heads == 0, ArgumentError, label, ": heads is ", options.heads,
           ", of ", channels, " channels; wanted a divisor of them", hint("or say head_width"));
  SF_CHECK(
      options.key_value_heads >= 0 && (options.key_value_heads == 0 || options.heads % options.key_value_heads == 0),
      ArgumentError, label, ": key_value_heads is ", options.key_value_heads, ", of ", options.heads,
      " heads; wanted a divisor of them, or 0 for as many");
  const Heads heads{.queries = options.heads,
                    .keys = options.key_value_heads > 0 ? options.key_value_heads : options.heads,
                    .width = options.head_width > 0 ? options.head_width : channels / options.heads};
  (void)checked_multiply(checked_multiply(heads.queries, heads.width, label), 3, label);
  return heads;
}

void check_cache_options(const std::string& label, const MultiHeadAttentionOptions& options, Value x,
                         const std::optional<Value>& memory, const Heads& heads) {
  SF_CHECK(options.cache.valid() || !options.position.valid(), ArgumentError, label,
           ": position is given without a cache; wanted both or none");
  if (!options.cache.valid()) return;
  const bool is_alone =
      !memory && !options.key_lengths.valid() && !options.mask.valid() && options.alignment == CausalAlignment::equal;
  SF_CHECK(options.causal && is_alone, ArgumentError, label, ": a cache is given, with causal ",
           options.causal ? "true" : "false",
           is_alone ? "" : ", and with a memory, key_lengths, a mask or an alignment",
           "; wanted causal, and none of those, since position says what is seen");
  check_cache(label, options.cache, options.position, x, heads.keys, heads.width);
}

/// Everything that can be said before something is made. Keys and queries that do not fit each other, the operation
/// refuses.
Heads check_attention(const std::string& label, const MultiHeadAttentionOptions& options, Value x,
                      std::optional<Value> memory) {
  check_sequence(label, options, "x", x);
  if (memory) check_sequence(label, options, "memory", *memory);
  const Heads heads = heads_of(label, options, x.shape()[2]);
  check_drop_rate(label, "dropout", options.dropout);
  check_drop_rate(label, "probability_dropout", options.probability_dropout);
  check_training_option(label, options.is_training);
  check_cache_options(label, options, x, memory, heads);
  if (!options.rotary) return heads;
  SF_CHECK(!memory, ArgumentError, label, ": rotary is set and there is a memory; wanted one of them",
           hint("places of a memory are its own: turn queries and keys by rotary(x) around attention(q, k, v)"));
  check_rotary(label + ": rotary", *options.rotary, x.shape()[1], heads.width);
  return heads;
}

/// [N, T, heads D] as [N, heads, T, D].
Value by_heads(Value x, std::int64_t heads, std::int64_t width) {
  return transpose(reshape(x, {x.shape()[0], x.shape()[1], heads, width}), {0, 2, 1, 3});
}

/// The queries, keys and values of x, [N, T, width of each]. `memory` where keys and values are made of it.
std::vector<Value> projections(Value x, std::optional<Value> memory, const Heads& heads,
                               const MultiHeadAttentionOptions& options) {
  const auto product = [&](Value of, std::int64_t features, const char* name) {
    return dense(
        of,
        {.features = features, .bias = options.bias, .kernel_initializer = options.kernel_initializer, .name = name});
  };
  const std::int64_t q = heads.query_width(), kv = heads.key_width();
  if (!memory) return split(product(x, q + 2 * kv, "qkv"), std::vector<std::int64_t>{q, kv, kv}, -1);
  std::vector<Value> all = {product(x, q, "query")};
  for (const Value& part : split(product(*memory, 2 * kv, "key_value"), 2, -1)) all.push_back(part);
  return all;
}

AttentionOptions options_of_op(const MultiHeadAttentionOptions& options) {
  return {.causal = options.causal,
          .alignment = options.alignment,
          .scale = options.scale,
          .window = options.window,
          .key_lengths = options.key_lengths,
          .mask = options.mask,
          .dropout = options.probability_dropout,
          .is_training = options.is_training};
}

/// What queries read, [N, heads, T, D] like them, of keys and values that they all stand among.
Value read_at_once(Value q, Value k, Value v, const MultiHeadAttentionOptions& options) {
  if (options.rotary) {
    const RotaryTables tables = rotary_tables(q.graph(), *options.rotary, q.shape()[2], q.shape()[3]);
    q = turned(q, tables, options.rotary->interleaved);
    k = turned(k, tables, options.rotary->interleaved);
  }
  return attention(q, k, v, options_of_op(options));
}

/// The same of those that the cache keeps as well.
Value read_with_cache(Value q, Value k, Value v, const MultiHeadAttentionOptions& options) {
  const std::int64_t capacity = options.cache.keys.shape()[2];
  const Value places = places_from(options.position, q.shape()[2]);
  if (options.rotary) {
    const RotaryTables all = rotary_tables(q.graph(), *options.rotary, capacity, q.shape()[3]);
    const RotaryTables tables = {gather(all.cosines, places), gather(all.sines, places)};
    q = turned(q, tables, options.rotary->interleaved);
    k = turned(k, tables, options.rotary->interleaved);
  }
  const CachedKeys seen = cached_keys(options.cache, k, v, places, options.window);
  AttentionOptions of_op = options_of_op(options);
  of_op.causal = false;  // lengths and mask say the same, of places
  of_op.window = 0;
  of_op.key_lengths = seen.key_lengths;
  of_op.mask = seen.mask;
  return known_rows(attention(q, seen.keys, seen.values, of_op), places, capacity, seen.updates);
}

/// x [N, T, C], whose N, if it is not known, is held to the cache's, if there is one.
Value with_examples_of(const std::string& label, Value x, const KeyValueCache& cache) {
  if (!cache.valid() || x.shape()[0] != kDynamic) return x;
  return same_size(x, cache.keys, {.what = label + ": of x and the cache, N"});
}

Value attention_layer(Value x, std::optional<Value> memory, const MultiHeadAttentionOptions& options, Where where) {
  std::vector<Value> inputs = memory ? std::vector{x, *memory} : std::vector{x};
  for (const Value& value : {options.key_lengths, options.mask, options.is_training, options.cache.keys,
                             options.cache.values, options.position}) {
    if (value.valid()) inputs.push_back(value);
  }
  return x.graph().build_at(where, inputs, [&] {
    const std::string label = text_of("multi_head_attention '", options.name, "'");
    const Heads heads = check_attention(label, options, x, memory);
    const auto names = x.graph().scope(options.name);
    const Value input = with_examples_of(label, x, options.cache);
    const std::vector<Value> qkv = projections(input, memory, heads, options);
    const auto read = options.cache.valid() ? read_with_cache : read_at_once;
    const Value by_head = read(by_heads(qkv[0], heads.queries, heads.width), by_heads(qkv[1], heads.keys, heads.width),
                               by_heads(qkv[2], heads.keys, heads.width), options);
    const Value together =
        reshape(transpose(by_head, {0, 2, 1, 3}), {qkv[0].shape()[0], qkv[0].shape()[1], heads.query_width()});
    const Value y = dense(together, {.features = x.shape()[2],
                                     .bias = options.output_bias,
                                     .kernel_initializer = options.output_initializer ? options.output_initializer
                                                                                      : options.kernel_initializer,
                                     .name = "output"});
    const Value result = dropped(y, options.dropout, options.is_training);
    // What a cache knows of N, x need not: they are to be added.
    return result.shape() == x.shape() ? result : reshape_like(result, x);
  });
}

// ---- Blocks.

void check_block(const std::string& label, const TransformerBlockOptions& options, Value x) {
  check_layer_input(x, "transformer_block", options.name);
  SF_CHECK(x.shape().rank() == 3 && x.shape()[2] > 0, ShapeError, label, " got ", x.shape(),
           "; wanted [N, T, C] with C known");
  SF_CHECK(options.hidden >= 0, ArgumentError, label, ": hidden is ", options.hidden,
           "; wanted > 0, or 0 for four times the channels");
  check_activation(options.activation, label);
  SF_CHECK(options.norm == Norm::layer || options.norm == Norm::rms, ArgumentError, label, ": norm is ",
           static_cast<int>(options.norm), "; wanted layer or rms");
  SF_CHECK(options.epsilon >= 0, ArgumentError, label, ": epsilon is ", options.epsilon, "; wanted >= 0");
  check_drop_rate(label, "dropout", options.dropout);
  check_drop_rate(label, "drop_path", options.drop_path);
  check_training_option(label, options.is_training);
  SF_CHECK(options.attention.dropout == 0 && !options.attention.is_training.valid(), ArgumentError, label,
           ": attention.dropout is ", options.attention.dropout, " and attention.is_training ",
           options.attention.is_training.valid() ? "given" : "not given",
           "; wanted dropout and is_training of the block, which count for both of its parts");
}

Value feed_forward(const std::string& label, Value x, const TransformerBlockOptions& options) {
  const std::int64_t channels = x.shape()[2];
  const std::int64_t hidden = options.hidden > 0 ? options.hidden : checked_multiply(4, channels, label);
  const auto product = [&](Value of, std::int64_t features, const Initializer& initializer, const char* name) {
    return dense(of, {.features = features, .bias = options.bias, .kernel_initializer = initializer, .name = name});
  };
  const std::int64_t width = options.gated ? checked_multiply(2, hidden, label) : hidden;
  Value y = product(x, width, options.kernel_initializer, "hidden");
  if (options.gated) {
    const std::vector<Value> halves = split(y, 2, -1);
    y = halves[0] * activate(halves[1], options.activation);
  } else {
    y = activate(y, options.activation);
  }
  return product(y, channels, options.output_initializer ? options.output_initializer : options.kernel_initializer,
                 "output");
}

}  // namespace

Value rotary(Value x, RotaryOptions options, Where where) {
  return x.graph().build_at(where, {x}, [&] {
    const std::string label = text_of("rotary of '", x.name(), "'");
    check_f32_or_bf16(x.type(), label);
    SF_CHECK(x.shape().rank() >= 2, ShapeError, label, " got ", x.shape(), "; wanted [..., T, D]");
    const std::int64_t length = x.shape()[-2], width = x.shape()[-1];
    check_rotary(label, options, length, width);
    return turned(x, rotary_tables(x.graph(), options, length, width), options.interleaved);
  });
}

Value multi_head_attention(Value x, const MultiHeadAttentionOptions& options, Where where) {
  return attention_layer(x, std::nullopt, options, where);
}
Value multi_head_attention(Value x, Value memory, const MultiHeadAttentionOptions& options, Where where) {
  return attention_layer(x, memory, options, where);
}

Value transformer_block(Value x, const TransformerBlockOptions& options, Where where) {
  std::vector<Value> inputs = {x};
  if (options.is_training.valid()) inputs.push_back(options.is_training);
  return x.graph().build_at(where, inputs, [&] {
    const std::string label = text_of("transformer_block '", options.name, "'");
    check_block(label, options, x);
    const auto names = x.graph().scope(options.name);
    // The input and what `part` makes of it, normalised before or behind.
    const auto with = [&](Value input, const char* norm, auto&& part) {
      const auto normalised = [&](Value of) {
        return options.norm == Norm::rms ? rms_norm(of, {.epsilon = options.epsilon, .name = norm})
                                         : layer_norm(of, {.epsilon = options.epsilon, .name = norm});
      };
      Value added = dropped(part(options.norm_first ? normalised(input) : input), options.dropout, options.is_training);
      if (options.drop_path > 0) {
        added = drop_path(added, training_of(x, options.is_training), {.rate = options.drop_path});
      }
      return options.norm_first ? input + added : normalised(input + added);
    };
    MultiHeadAttentionOptions of_attention = options.attention;
    of_attention.is_training = options.is_training;
    const Value attended =
        with(in_layer_dtype(x), "norm1", [&](Value of) { return multi_head_attention(of, of_attention); });
    return with(attended, "norm2", [&](Value of) { return feed_forward(label, of, options); });
  });
}

}  // namespace sectionflow

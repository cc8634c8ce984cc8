#include "graph/key_value_cache.h"

#include "base/error.h"
#include "graph/cached_attention.h"
#include "graph/functions.h"
#include "graph/op_def.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/update.h"
#include "graph/parameter.h"
#include "graph/shape_rules.h"

namespace sectionflow {
namespace {

/// `rows` [N, G, T, D] at their places of `kept` [N, G, S, D].
Value with_rows_at(Value kept, Value rows, Value places) {
  Graph& graph = kept.graph();
  const std::int64_t capacity = kept.shape()[2], count = places.shape()[0];
  const Value slots = range(graph, capacity);
  if (count == 1) return select(reshape(equal(slots, places), {capacity, 1}), rows, kept);
  const Value first = squeeze(slice(places, {.begin = {0}, .size = {1}}), {0});
  const Value number = slots - first;  // of the row that belongs to a slot, if it is one
  const Value is_new = logical_and(greater_equal(number, constant(graph, HostTensor::scalar<std::int64_t>(0))),
                                   less(number, constant(graph, HostTensor::scalar(count))));
  const Value in_slots = transpose(gather(transpose(rows, {2, 0, 1, 3}), number), {1, 2, 0, 3});
  return select(reshape(is_new, {capacity, 1}), in_slots, kept);
}

/// The same, which the variable is to keep.
Value kept_with(Value variable, Value rows, Value places) {
  const Value all = with_rows_at(variable, in_dtype(rows, variable.dtype()), places);
  variable.graph().add_to_collection(kCacheUpdates, assign(variable, all));
  return in_dtype(all, rows.dtype());
}

/// [T, S]: whether the query at a place sees a slot.
Value seen_slots(Value places, std::int64_t capacity, std::int64_t window) {
  Graph& graph = places.graph();
  const Value slots = range(graph, capacity);
  const Value of_queries = expand_dims(places, 1);
  const Value is_before = less_equal(slots, of_queries);
  if (window == 0) return is_before;
  return logical_and(is_before, greater(slots, of_queries - constant(graph, HostTensor::scalar(window))));
}

}  // namespace

KeyValueCache key_value_cache(Graph& graph, const KeyValueCacheOptions& options, Where where) {
  return graph.build_at(where, {}, [&] {
    const std::string label = text_of("key_value_cache '", options.name, "'");
    SF_CHECK(is_f32_or_bf16(options.dtype), ArgumentError, label, ": dtype is ", dtype_name(options.dtype),
             "; wanted f32 or bf16");
    const Shape shape{options.batch, options.heads, options.capacity, options.head_width};
    for (const std::int64_t size : shape.dims()) {
      SF_CHECK(size > 0, ArgumentError, label, ": batch, heads, capacity and head_width are ", shape,
               "; wanted numbers above 0");
    }
    const auto names = graph.scope(options.name);
    const auto empty = [&](const char* name) {
      return variable(name, fill(graph, shape, 0, options.dtype, "initial_value"), {.trainable = false});
    };
    const Value keys = empty("keys");
    return KeyValueCache{.keys = keys, .values = empty("values")};
  });
}

void check_cache(const std::string& label, const KeyValueCache& cache, Value position, Value x, std::int64_t heads,
                 std::int64_t head_width) {
  SF_CHECK(x.shape()[1] != kDynamic, ShapeError, label, ": x is ", x.shape(), "; wanted a known T beside a cache");
  SF_CHECK(position.valid(), ArgumentError, label, ": a cache is given without position; wanted both",
           hint("placeholder(graph, \"position\", {}, Dtype::i64), fed with the number of tokens before x"));
  const bool is_whole = position.dtype() == Dtype::i64 || position.dtype() == Dtype::i32;
  SF_CHECK(is_whole && position.shape().rank() == 0, ArgumentError, label, ": position is ", position.type().text(),
           "; wanted i64[] or i32[]");
  for (const Value kept : {cache.keys, cache.values}) {
    SF_CHECK(kept.valid(), ArgumentError, label, ": the cache has one of keys and values; wanted both",
             hint("key_value_cache makes them"));
    const bool fits = is_f32_or_bf16(kept.dtype()) && kept.shape().rank() == 4 &&
                      may_agree(kept.type(), {kept.dtype(), {x.shape()[0], heads, kDynamic, head_width}});
    SF_CHECK(fits && kept.shape()[2] == cache.keys.shape()[2], ShapeError, label, ": the cache's '", kept.name(),
             "' is ", kept.type().text(), "; wanted [N, G, S, D] with N of x ", x.shape(), ", G = ", heads,
             " heads of keys and values, and D = ", head_width);
  }
}

Value places_from(Value position, std::int64_t count) {
  const Value first = position.dtype() == Dtype::i64 ? position : cast(position, Dtype::i64);
  return range(position.graph(), count) + first;
}

CachedKeys cached_keys(const KeyValueCache& cache, Value keys, Value values, Value places, std::int64_t window) {
  Graph& graph = places.graph();
  const auto names = graph.scope("cache");
  const std::int64_t count = places.shape()[0], capacity = cache.keys.shape()[2];
  CachedKeys made{.keys = kept_with(cache.keys, keys, places),
                  .values = kept_with(cache.values, values, places),
                  .key_lengths = {}};
  const Value last = slice(places, {.begin = {count - 1}, .size = {1}});
  made.key_lengths = broadcast_to(last + constant(graph, HostTensor::scalar<std::int64_t>(1)), {cache.keys.shape()[0]});
  if (count > 1 || window > 0) made.mask = seen_slots(places, capacity, window);
  return made;
}

Value known_rows(Value y, Value places, std::int64_t capacity) {
  // gather gives NaN for a row that there is not; times 1 is what it was.
  const Value ones = fill(y.graph(), {capacity, 1}, 1, y.dtype(), "ones");
  return y * gather(ones, places);
}

}  // namespace sectionflow

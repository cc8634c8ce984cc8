#include "graph/cached_attention.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "graph/functions.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/indexing.h"
#include "graph/ops/layout.h"
#include "graph/ops/parts.h"
#include "graph/ops/update.h"
#include "graph/parameter.h"

namespace sectionflow {
namespace {

/// `rows` [N, G, T, D] at their places of `kept` [N, G, S, D], and zeros behind them: what an earlier text has left
/// there is hidden, but hidden NaN would be multiplied by 0.
Value with_rows_at(Value kept, Value rows, Value places) {
  Graph& graph = kept.graph();
  const std::int64_t capacity = kept.shape()[2], count = places.shape()[0];
  const Value slots = range(graph, capacity);
  const Value first = squeeze(slice(places, {.begin = {0}, .size = {1}}), {0});
  kept = select(reshape(less(slots, first), {capacity, 1}), kept, fill(graph, {}, 0, kept.dtype(), "nothing"));
  if (count == 1) return select(reshape(equal(slots, places), {capacity, 1}), rows, kept);
  const Value number = slots - first;  // of the row that belongs to a slot, if it is one
  const Value is_new = logical_and(greater_equal(number, constant(graph, HostTensor::scalar<std::int64_t>(0))),
                                   less(number, constant(graph, HostTensor::scalar(count))));
  const Value in_slots = transpose(gather(transpose(rows, {2, 0, 1, 3}), number), {1, 2, 0, 3});
  return select(reshape(is_new, {capacity, 1}), in_slots, kept);
}

/// The same, which the variable is to keep, by an operation that joins `updates`.
Value kept_with(Value variable, Value rows, Value places, std::vector<Operation>& updates) {
  Graph& graph = variable.graph();
  const std::string others = text_of("cache_updates/", variable.name());
  const NodeId first = graph.num_nodes();
  const Value all = with_rows_at(variable, in_dtype(rows, variable.dtype()), places);
  // Two of one cache in one run would read it before either has kept its rows, and one would lose its own. Reading is
  // ordered behind what the others keep, which waits for all that reads: such a run has a cycle, and is refused.
  for (NodeId id = first; id < graph.num_nodes(); ++id) {
    Node& node = graph.node(id);
    if (std::ranges::find(node.inputs(), variable) == node.inputs().end()) continue;
    for (const Operation& other : graph.operations(others)) graph.add_order_edge(other, Operation(node));
  }
  updates.push_back(assign(variable, all));
  graph.add_to_collection(others, updates.back());
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

Value places_from(Value position, std::int64_t count) {
  const Value first = position.dtype() == Dtype::i64 ? position : cast(position, Dtype::i64);
  return range(position.graph(), count) + first;
}

CachedKeys cached_keys(const KeyValueCache& cache, Value keys, Value values, Value places, std::int64_t window) {
  Graph& graph = places.graph();
  const auto names = graph.scope("cache");
  const std::int64_t count = places.shape()[0], capacity = cache.keys.shape()[2];
  CachedKeys made;
  made.keys = kept_with(cache.keys, keys, places, made.updates);
  made.values = kept_with(cache.values, values, places, made.updates);
  const Value last = slice(places, {.begin = {count - 1}, .size = {1}});
  made.key_lengths = broadcast_to(last + constant(graph, HostTensor::scalar<std::int64_t>(1)), {cache.keys.shape()[0]});
  if (count > 1 || window > 0) made.mask = seen_slots(places, capacity, window);
  return made;
}

Value known_rows(Value y, Value places, std::int64_t capacity, const std::vector<Operation>& updates) {
  // gather gives NaN for a row that there is not; times 1 is what it was.
  const Value ones = fill(y.graph(), {capacity, 1}, 1, y.dtype(), "ones");
  const Value known = y * gather(ones, places);
  for (const Operation& update : updates) y.graph().add_control_edge(update, Operation(known.node()));
  return known;
}

}  // namespace sectionflow

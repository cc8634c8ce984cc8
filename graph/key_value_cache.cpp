#include "graph/key_value_cache.h"

#include <utility>

#include "base/error.h"
#include "graph/cached_attention.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/shape_rules.h"

namespace sectionflow {

KeyValueCache key_value_cache(Graph& graph, const KeyValueCacheOptions& options, Where where) {
  return graph.build_at(where, {}, [&] {
    const std::string label = text_of("key_value_cache '", options.name, "'");
    SF_CHECK(is_f32_or_bf16(options.dtype), ArgumentError, label, ": dtype is ", dtype_name(options.dtype),
             "; wanted f32 or bf16");
    const std::pair<const char*, std::int64_t> sizes[] = {{"batch", options.batch},
                                                          {"heads", options.heads},
                                                          {"head_width", options.head_width},
                                                          {"capacity", options.capacity}};
    for (const auto& [name, size] : sizes) {
      SF_CHECK(size > 0, ArgumentError, label, ": ", name, " is ", size, "; wanted > 0",
               hint("heads, head_width and capacity must be set"));
    }
    const Shape shape{options.batch, options.heads, options.capacity, options.head_width};
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
  SF_CHECK(cache.keys != cache.values, ArgumentError, label, ": keys and values of the cache are one variable",
           hint("key_value_cache makes two"));
  for (const Value kept : {cache.keys, cache.values}) {
    SF_CHECK(kept.valid(), ArgumentError, label, ": the cache has one of keys and values; wanted both",
             hint("key_value_cache makes them"));
    const bool fits = is_f32_or_bf16(kept.dtype()) && kept.shape().rank() == 4 &&
                      may_agree(kept.type(), {kept.dtype(), {x.shape()[0], heads, kDynamic, head_width}});
    SF_CHECK(fits && kept.shape()[2] == cache.keys.shape()[2], ShapeError, label, ": the cache's '", kept.name(),
             "' is ", kept.type().text(), "; wanted [N, G, S, D] with N of x ", x.shape(), ", G = ", heads,
             " heads of keys and values, and D = ", head_width);
    SF_CHECK(x.shape()[1] <= kept.shape()[2], ShapeError, label, ": x is ", x.shape(), " and the cache's '",
             kept.name(), "' ", kept.type().text(), "; wanted no more rows than it has places",
             hint("give key_value_cache a larger capacity"));
  }
}

}  // namespace sectionflow

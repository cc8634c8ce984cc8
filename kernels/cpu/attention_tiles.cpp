#include "kernels/cpu/attention_tiles.h"

#include <set>

namespace sectionflow {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t rounded_up(std::int64_t a, std::int64_t multiple) {
  return divided_up(a, multiple) * multiple;
}

}  // namespace

AttentionTiling::AttentionTiling(const AttentionGeometry& g, Dtype factors, bool shortens)
    : geometry(g), has_lengths(shortens) {
  if (g.heads == 0 || g.queries == 0) return;
  // Enough for the team to share; of bf16 half as many, whose weights are kept beside scores.
  const std::int64_t most_heads = factors == Dtype::bf16 ? 8 : 16;
  constexpr std::int64_t kMaxScores = 1 << 21;    // 8 MiB
  constexpr std::int64_t kRows = 16, kStep = 64;  // what matrix kernels take at a time, and what is worth a product
  const std::int64_t groups = g.key_heads(), most_groups = std::max<std::int64_t>(1, most_heads / g.group);
  max_heads = divided_up(groups, divided_up(groups, most_groups)) * g.group;
  std::int64_t wanted = g.queries, keys = g.keys;
  // A fourth of the queries: 5/8 of the square remain, and copying the keys of each tile stays cheap beside products.
  if (g.bounded) wanted = std::max(kStep, rounded_up(divided_up(g.queries, 4), kRows));
  key_step = std::max(kStep, rounded_up(divided_up(g.keys, 8), kRows));
  if (g.window > 0) {
    // As many queries as the window is long see half of the keys of their tile each.
    wanted = std::min(wanted, std::max(kStep, rounded_up(g.window, kRows)));
    key_step = std::min(key_step, std::max(kStep, rounded_up(g.window / 4, kRows)));
    keys = std::min(keys, wanted + 2 * g.window + 2 * key_step);
  }
  const std::int64_t fitting = std::max(kRows, kMaxScores / (max_heads * keys) / kRows * kRows);
  max_queries = std::min({g.queries, wanted, fitting});
  head_blocks = divided_up(g.heads, max_heads);
  query_blocks = divided_up(g.queries, max_queries);
  std::int64_t fewest = g.keys;
  for (std::int64_t i = 0; i < query_blocks; ++i) {
    const std::int64_t num_keys = tile(i).num_keys;
    max_keys = std::max(max_keys, num_keys);
    fewest = std::min(fewest, num_keys);
  }
  cuts_keys = fewest < g.keys || (has_lengths && key_step < g.keys);
  cuts_queries = max_queries < g.queries;
}

AttentionTile AttentionTiling::tile(std::int64_t number) const {
  const std::int64_t head = number / query_blocks * max_heads, query = number % query_blocks * max_queries;
  const std::int64_t num_queries = std::min(max_queries, geometry.queries - query);
  const std::int64_t seen = geometry.keys_of(query + num_queries - 1, geometry.keys);
  // Of queries that see none, the last: each tile has keys.
  const std::int64_t first = std::min(geometry.first_key_of(query), geometry.keys - 1) / key_step * key_step;
  return {head,  std::min(max_heads, geometry.heads - head),
          query, num_queries,
          first, std::min(geometry.keys, rounded_up(seen, key_step)) - first};
}

AttentionTile AttentionTiling::shortened(AttentionTile tile, std::int64_t length) const {
  const std::int64_t left = std::max(key_step, rounded_up(length - tile.first_key, key_step));
  tile.num_keys = std::min(tile.num_keys, left);
  return tile;
}

AttentionCalls::AttentionCalls(OneDnn& onednn, const AttentionGeometry& g, const AttentionTiling& tiling,
                               bool for_gradient, Dtype factors)
    : group_(g.group) {
  const auto add_one = [&](const AttentionTile& tile) {
    const auto [entry, is_new] = products_.try_emplace(key_of(tile));
    if (!is_new) return;
    const auto [heads, queries, keys] = key_of(tile);
    const auto call = [&](const MatmulProblem& problem) {
      may_be_taken_ = may_be_taken_ && (factors != Dtype::bf16 || multiplies_bf16_of(problem.inner));
      return make_matmul_call(onednn, problem, factors);
    };
    entry->second.by_keys =
        call({.batch = heads, .rows = queries, .inner = g.width, .columns = keys, .transpose_b = true});
    entry->second.times_keys = call({.batch = heads, .rows = queries, .inner = keys, .columns = g.width});
    if (for_gradient) {
      entry->second.by_queries =
          call({.batch = heads, .rows = keys, .inner = queries, .columns = g.width, .transpose_a = true});
    }
  };
  const auto add = [&](const AttentionTile& tile) {
    add_one(tile);
    const std::int64_t end = tiling.has_lengths ? tile.first_key + tile.num_keys : 0;
    for (std::int64_t length = tile.first_key; length < end; length += tiling.key_step) {
      add_one(tiling.shortened(tile, length));
    }
  };
  // Blocks of heads are of one size, but perhaps for the last.
  const std::int64_t last_heads = tiling.num_tiles() - tiling.query_blocks;
  for (std::int64_t i = 0; i < tiling.query_blocks; ++i) {
    add(tiling.tile(i));
    add(tiling.tile(last_heads + i));
  }
}

bool AttentionCalls::are_jit() const {
  bool all = may_be_taken_;
  for_each([&](const OneDnnCall& call) { all = all && is_jit(call.implementation()); });
  return all;
}

std::size_t AttentionCalls::library_bytes() const {
  std::size_t bytes = 0;
  for_each([&](const OneDnnCall& call) { bytes += call.library_bytes(); });
  return bytes;
}

std::size_t AttentionCalls::scratchpad_bytes() const {
  std::size_t most = 0;
  for_each([&](const OneDnnCall& call) { most = std::max(most, call.scratchpad_bytes()); });
  return most;
}

std::string AttentionCalls::implementation() const {
  std::set<std::string> used;
  for_each([&](const OneDnnCall& call) { used.insert(call.implementation()); });
  std::string text = "onednn";
  for (const std::string& name : used) text += " " + name;
  return text;
}

}  // namespace sectionflow

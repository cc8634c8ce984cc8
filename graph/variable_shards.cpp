#include "graph/variable_shards.h"

#include <algorithm>
#include <any>
#include <utility>

#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

using Types = std::vector<TensorType>;

// Below these, whole blocks would leave the last ranks much less than the first: a sixteenth of a shard at most.
constexpr std::int64_t kLeastBlocks = 16;
// As Communicator's chunks: whole lines of a cache.
constexpr std::int64_t kLine = 16;

std::int64_t checked_ranks(std::int64_t ranks, const std::string& label) {
  SF_CHECK(ranks >= 1 && ranks <= kMostRanks, ArgumentError, label, ": ", ranks, " ranks; wanted 1 to ", kMostRanks);
  return ranks;
}

/// Of what is `whole`. Throws: ArgumentError unless it is f32 of a known shape.
TensorType shard_type(const TensorType& whole, std::int64_t ranks, const std::string& label) {
  SF_CHECK(whole.dtype == Dtype::f32 && whole.shape.is_static(), ArgumentError, label, ": shards of ", whole.text(),
           "; wanted f32 of a known shape");
  return {Dtype::f32, {shard_elements(whole.shape.num_elements(), checked_ranks(ranks, label))}};
}

void check_shard(const TensorType& shard, const TensorType& whole, std::int64_t ranks, const std::string& label) {
  const TensorType wanted = shard_type(whole, ranks, label);
  SF_CHECK(shard == wanted, ShapeError, label, ": ", shard.text(), " as a shard of ", whole.text(), " for ", ranks,
           " ranks; wanted ", wanted.text());
}

Types infer_reduced_shard(const ShapeRequest& r) {
  const std::int64_t ranks = r.get<RanksOptions>().ranks;
  SF_CHECK(r.inputs.size() != 2, ArgumentError, r.label, ": 2 inputs; wanted 1 or 3");
  const bool accumulates = r.inputs.size() > 1;
  const TensorType shard = shard_type(r.inputs[accumulates ? 1 : 0], ranks, r.label);
  if (!accumulates) return {shard};
  check_shard(r.inputs[0], r.inputs[1], ranks, r.label);
  check_scalar(r, 2, Dtype::i64, "micro_batch");
  return {shard};
}

Types infer_norm(const ShapeRequest& r) {
  const auto& options = r.get<NormOfShardsOptions>();
  SF_CHECK(options.elements.size() == r.inputs.size(), ArgumentError, r.label, ": ", r.inputs.size(), " shards of ",
           options.elements.size(), " values; wanted as many");
  for (std::size_t i = 0; i < r.inputs.size(); ++i) {
    SF_CHECK(options.elements[i] >= 0, ArgumentError, r.label, ": ", options.elements[i], " elements");
    check_shard(r.inputs[i], {Dtype::f32, {options.elements[i]}}, options.ranks, r.label);
  }
  return {{Dtype::f32, {}}};
}

OptionsDescription ranks_options() {
  return described_by<RanksOptions>([](auto& fields, auto& options) { fields("ranks", options.ranks); });
}

}  // namespace

std::int64_t shard_elements(std::int64_t elements, std::int64_t ranks) {
  SF_CHECK(elements >= 0 && ranks >= 1, ArgumentError, "shards of ", elements, " elements for ", ranks,
           " ranks; wanted 0 or more elements and a rank at least");
  const std::int64_t equal = elements / ranks + (elements % ranks > 0 ? 1 : 0);
  const std::int64_t unit = equal >= kLeastBlocks * kNormBlock ? kNormBlock : kLine;
  return std::min(elements, (equal + unit - 1) / unit * unit);
}

ShardLayout::ShardLayout(std::int64_t of_whole, std::int64_t ranks)
    : elements(of_whole),
      shard(shard_elements(of_whole, ranks)),
      ends_blocks(shard >= kLeastBlocks * kNormBlock && shard % kNormBlock == 0) {}

std::int64_t ShardLayout::elements_of(std::int64_t rank) const {
  return std::clamp<std::int64_t>(elements - rank * shard, 0, shard);
}

void define_shard_ops(OpRegistry& registry) {
  registry.add({.name = "assign_shard",
                .inputs = 2,
                .options = ranks_options(),
                .infer =
                    [](const ShapeRequest& r) {
                      check_shard(r.inputs[0], r.inputs[1], r.get<RanksOptions>().ranks, r.label);
                      return Types{};
                    },
                .recompute = Recompute::once,
                .updated_inputs = {0}});
  registry.add({.name = "gathered_variable",
                .inputs = 2,
                .options = described_by<GatheredVariableOptions>(
                    [](auto& fields, auto& options) { fields("ranks", options.ranks); }),
                .infer =
                    [](const ShapeRequest& r) {
                      check_shard(r.inputs[0], r.inputs[1], r.get<GatheredVariableOptions>().ranks, r.label);
                      return Types{r.inputs[1]};
                    },
                .recompute = Recompute::once,
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::unused};
                    },
                .communicates = true});
  registry.add({.name = "reduced_shard",
                .inputs = {1, 3},
                .options = ranks_options(),
                .infer = infer_reduced_shard,
                .recompute = Recompute::once,
                .communicates = true});
  registry.add({.name = "norm_of_shards",
                .inputs = {1, kAnyNumber},
                .options = described_by<NormOfShardsOptions>([](auto& fields, auto& options) {
                  fields("ranks", options.ranks);
                  fields("elements", options.elements);
                }),
                .infer = infer_norm,
                .recompute = Recompute::once,
                .communicates = true});
}

Value shard_variable(Value variable, int ranks) {
  Graph& graph = variable.graph();
  const Value known = shard_of(variable);
  if (known.valid()) {
    SF_CHECK_CODE(ranks_of_shard(known) == ranks, ArgumentError, ErrorCode::ranks, "'", variable.name(),
                  "' is held in shards by ", ranks_of_shard(known), " ranks, not by ", ranks);
    return known;
  }
  const auto group = graph.enter_group(variable.node().group());
  const Value shard = shard_of_value(text_of("/", variable.name(), "/shard"), initial_value_of(variable), ranks);
  note_gathered(graph.add_node("gathered_variable", {shard, variable}, GatheredVariableOptions{ranks},
                               text_of("/", variable.name(), "/gathered")));
  return shard;
}

Value reduced_shard(Value x, int ranks) {
  return x.graph().add_node("reduced_shard", {x}, RanksOptions{ranks}, "reduced_shard").output();
}
Value reduced_shard(Value accumulator, Value x, Value micro_batch, int ranks) {
  return x.graph()
      .add_node("reduced_shard", {accumulator, x, micro_batch}, RanksOptions{ranks}, "reduced_shard")
      .output();
}

Value norm_of_shards(std::vector<Value> xs, std::vector<std::int64_t> elements, int ranks) {
  Graph& graph = xs.front().graph();
  NormOfShardsOptions options{ranks, std::move(elements)};
  return graph.add_node("norm_of_shards", std::move(xs), std::move(options), "norm_of_shards").output();
}

bool gives_variable(const Node& node) {
  return std::any_cast<GatheredVariableOptions>(&node.any_options()) != nullptr;
}

Value shard_of(Value variable) {
  const Value gathered = gathered_of(variable);
  return gathered.valid() ? gathered.node().inputs()[0] : Value();
}

}  // namespace sectionflow

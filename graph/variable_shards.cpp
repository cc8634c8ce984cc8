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

/// Throws: ArgumentError for holders that cannot be.
const ShardHolders& checked(const ShardHolders& holders, const std::string& label) {
  SF_CHECK(holders.ranks >= 1 && holders.ranks <= kMostRanks, ArgumentError, label, ": ", holders.ranks,
           " ranks; wanted 1 to ", kMostRanks);
  SF_CHECK(!holders.has_server || (holders.server >= 0 && holders.server < holders.ranks), ArgumentError, label,
           ": the server is rank ", holders.server, "; wanted 0 to ", holders.ranks - 1);
  return holders;
}

void check_shard(const TensorType& shard, const TensorType& whole, const ShardHolders& holders,
                 const std::string& label) {
  const TensorType wanted = type_of_shard(whole, holders, label);
  const bool is_elsewhere = holders.has_server && shard == TensorType{Dtype::f32, {0}};
  SF_CHECK(shard == wanted || is_elsewhere, ShapeError, label, ": ", shard.text(), " as a shard of ", whole.text(),
           " for ", text_of_holders(holders), "; wanted ", wanted.text());
}

/// Inputs: a shard like the result and x; or an accumulator, x and the micro-batch.
Types infer_reduced_shard(const ShapeRequest& r) {
  check_shard(r.inputs[0], r.inputs[1], r.get<ShardHolders>(), r.label);
  if (r.inputs.size() > 2) check_scalar(r, 2, Dtype::i64, "micro_batch");
  return {r.inputs[0]};
}

Types infer_norm(const ShapeRequest& r) {
  const auto& options = r.get<NormOfShardsOptions>();
  SF_CHECK(options.elements.size() == r.inputs.size(), ArgumentError, r.label, ": ", r.inputs.size(), " shards of ",
           options.elements.size(), " values; wanted as many");
  for (std::size_t i = 0; i < r.inputs.size(); ++i) {
    SF_CHECK(options.elements[i] >= 0, ArgumentError, r.label, ": ", options.elements[i], " elements");
    check_shard(r.inputs[i], {Dtype::f32, {options.elements[i]}}, options, r.label);
  }
  return {{Dtype::f32, {}}};
}

constexpr auto describe_holders = [](auto& fields, auto& options) {
  fields("ranks", options.ranks);
  fields.usual("has_server", options.has_server);
  fields.usual("server", options.server);
};

/// Throws: ArgumentError (SF-E036) unless a variable that is held so already is held by these.
void check_same_holders(Value variable, Value shard, const ShardHolders& holders) {
  const ShardHolders known = holders_of_shard(shard);
  SF_CHECK_CODE(known == holders, ArgumentError, ErrorCode::ranks, "'", variable.name(), "' is held in shards by ",
                text_of_holders(known), ", not by ", text_of_holders(holders));
}

}  // namespace

std::int64_t shard_elements(std::int64_t elements, std::int64_t ranks) {
  SF_CHECK(elements >= 0 && ranks >= 1, ArgumentError, "shards of ", elements, " elements for ", ranks,
           " ranks; wanted 0 or more elements and a rank at least");
  const std::int64_t equal = elements / ranks + (elements % ranks > 0 ? 1 : 0);
  const std::int64_t unit = equal >= kLeastBlocks * kNormBlock ? kNormBlock : kLine;
  return std::min(elements, (equal + unit - 1) / unit * unit);
}

std::string text_of_holders(const ShardHolders& holders) {
  if (holders.has_server) return text_of("rank ", holders.server, " of ", holders.ranks);
  return text_of(holders.ranks, holders.ranks == 1 ? " rank" : " ranks");
}

TensorType type_of_shard(const TensorType& whole, const ShardHolders& holders, const std::string& label) {
  SF_CHECK(whole.dtype == Dtype::f32 && whole.shape.is_static(), ArgumentError, label, ": shards of ", whole.text(),
           "; wanted f32 of a known shape");
  return {Dtype::f32, {ShardLayout(whole.shape.num_elements(), checked(holders, label)).shard}};
}

ShardLayout::ShardLayout(std::int64_t of_whole, const ShardHolders& of_holders)
    : holders(of_holders),
      elements(of_whole),
      shard(holders.has_server ? of_whole : shard_elements(of_whole, holders.ranks)),
      ends_blocks(!holders.has_server && shard >= kLeastBlocks * kNormBlock && shard % kNormBlock == 0) {}

std::int64_t ShardLayout::size_on(std::int64_t rank) const {
  return holders.has_server && rank != holders.server ? 0 : shard;
}

std::int64_t ShardLayout::elements_of(std::int64_t rank) const {
  return std::clamp<std::int64_t>(elements - begin_of(rank), 0, size_on(rank));
}

void define_shard_ops(OpRegistry& registry) {
  registry.add({.name = "assign_shard",
                .inputs = 2,
                .options = described_by<ShardHolders>(describe_holders),
                .infer =
                    [](const ShapeRequest& r) {
                      check_shard(r.inputs[0], r.inputs[1], r.get<ShardHolders>(), r.label);
                      return Types{};
                    },
                .recompute = Recompute::once,
                .updated_inputs = {0}});
  registry.add({.name = "gathered_variable",
                .inputs = 2,
                .options = described_by<GatheredVariableOptions>(describe_holders),
                .infer =
                    [](const ShapeRequest& r) {
                      check_shard(r.inputs[0], r.inputs[1], r.get<GatheredVariableOptions>(), r.label);
                      return Types{r.inputs[1]};
                    },
                .recompute = Recompute::once,
                .uses =
                    [](std::size_t, HostBooleans) {
                      return std::vector{InputUse::data, InputUse::unused};
                    },
                .communicates = true});
  // That the master copy is among the updated ones has the copy follow all updates of it; its content stays.
  add_conditional(registry, {.name = "refreshed_copy",
                             .inputs = 2,
                             .options = described_by<ShardHolders>(describe_holders),
                             .infer =
                                 [](const ShapeRequest& r) {
                                   check_shard(r.inputs[1], r.inputs[0], r.get<ShardHolders>(), r.label);
                                   return Types{};
                                 },
                             .recompute = Recompute::once,
                             .updated_inputs = {0, 1},
                             .left_by_update = {LeftByUpdate::own, LeftByUpdate::unchanged},
                             .communicates = true});
  registry.add({.name = "reduced_shard",
                .inputs = {2, 3},
                .options = described_by<ShardHolders>(describe_holders),
                .infer = infer_reduced_shard,
                .recompute = Recompute::once,
                .uses =
                    [](std::size_t num_inputs, HostBooleans) {
                      std::vector<InputUse> uses(num_inputs, InputUse::data);
                      if (num_inputs == 2) uses[0] = InputUse::shape_only;
                      return uses;
                    },
                .communicates = true});
  registry.add({.name = "norm_of_shards",
                .inputs = {1, kAnyNumber},
                .options = described_by<NormOfShardsOptions>([](auto& fields, auto& options) {
                  describe_holders(fields, options);
                  fields("elements", options.elements);
                }),
                .infer = infer_norm,
                .recompute = Recompute::once,
                .communicates = true});
}

Value shard_variable(Value variable, const ShardHolders& holders) {
  Graph& graph = variable.graph();
  const Value known = shard_of(variable);
  if (known.valid()) {
    check_same_holders(variable, known, holders);
    return known;
  }
  const auto group = graph.enter_group(variable.node().group());
  const Value shard = shard_of_value(text_of("/", variable.name(), "/shard"), initial_value_of(variable), holders);
  note_gathered(graph.add_node("gathered_variable", {shard, variable}, GatheredVariableOptions{holders},
                               text_of("/", variable.name(), "/gathered")));
  return shard;
}

Value master_of_copies(Value variable, const ShardHolders& holders) {
  const Value known = master_of(variable);
  if (known.valid()) {
    check_same_holders(variable, known, holders);
    return known;
  }
  const auto group = variable.graph().enter_group(variable.node().group());
  return shard_of_value(text_of("/", variable.name(), "/master"), initial_value_of(variable), holders);
}

Operation refresh_copy(Value variable, Value master, Value condition) {
  const auto group = variable.graph().enter_group(variable.node().group());
  const Operation refresh =
      conditional_update("refreshed_copy", {variable, master}, holders_of_shard(master), {.condition = condition});
  if (!master_of(variable).valid()) note_gathered(refresh.node());
  return refresh;
}

Value reduced_shard(Value like, Value x) {
  return x.graph().add_node("reduced_shard", {like, x}, holders_of_shard(like), "reduced_shard").output();
}
Value reduced_shard(Value accumulator, Value x, Value micro_batch) {
  return x.graph()
      .add_node("reduced_shard", {accumulator, x, micro_batch}, holders_of_shard(accumulator), "reduced_shard")
      .output();
}

Value norm_of_shards(std::vector<Value> xs, std::vector<std::int64_t> elements, const ShardHolders& holders) {
  Graph& graph = xs.front().graph();
  NormOfShardsOptions options{holders, std::move(elements)};
  return graph.add_node("norm_of_shards", std::move(xs), std::move(options), "norm_of_shards").output();
}

const ShardHolders* holders_of(const Node& node) {
  const std::any& options = node.any_options();
  if (const auto* gathered = std::any_cast<GatheredVariableOptions>(&options)) return gathered;
  if (const auto* norm = std::any_cast<NormOfShardsOptions>(&options)) return norm;
  return std::any_cast<ShardHolders>(&options);
}

bool gives_variable(const Node& node) {
  return std::any_cast<GatheredVariableOptions>(&node.any_options()) != nullptr;
}

bool refreshes_copy(const Node& node) {
  return node.op().communicates && node.op().is_update();
}

Value shard_of(Value variable) {
  const Value gathered = gathered_of(variable);
  return gathered.valid() ? gathered.node().inputs()[0] : Value();
}

Value place_of(Value variable) {
  const Value shard = shard_of(variable);
  return shard.valid() ? shard : variable;
}

Value updated_for(Value variable) {
  const Value master = master_of(variable);
  return master.valid() ? master : place_of(variable);
}

std::int64_t ranks_of_shard(Value variable) {
  return holders_of_shard(variable).ranks;
}

bool is_held_elsewhere(Value variable, std::int64_t rank) {
  const ShardHolders holders = holders_of_shard(variable);
  return holders.has_server && holders.server != rank;
}

}  // namespace sectionflow

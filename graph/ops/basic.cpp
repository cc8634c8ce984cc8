#include "graph/ops/basic.h"

#include <set>

#include "graph/nodes/shards.h"
#include "graph/op_registry.h"
#include "graph/ops/update.h"
#include "graph/option_fields.h"
#include "graph/shared_entry.h"
#include "graph/update_rules.h"

namespace sectionflow {
namespace {

/// Options of the node: the user's words and the initialiser, which is made after the node.
struct VariableNode {
  TensorType type;
  VariableOptions options;
  std::shared_ptr<Operation> initializer = std::make_shared<Operation>();
  // Of a shard: of what, and who holds it; no ranks elsewhere.
  TensorType whole{};
  ShardHolders holders{.ranks = 0};
  // Of a variable that ranks hold in shards, and of its shard: what gathers it, which is made after both. Of a variable
  // that is a copy, and of the master copy's shard: what refreshes it.
  std::shared_ptr<Operation> gathered = std::make_shared<Operation>();
};

std::vector<TensorType> infer_variable(const ShapeRequest& request) {
  const auto& node = request.get<VariableNode>();
  const TensorType& type = node.type;
  SF_CHECK(type.shape.is_static(), ShapeError, request.label, ": shape ", type.shape, " must be known");
  if (node.holders.ranks == 0) return {type};
  const TensorType shard = type_of_shard(node.whole, node.holders, request.label);
  SF_CHECK(type == shard, ArgumentError, request.label, ": ", type.text(), " as a shard of ", node.whole.text(),
           " for ", text_of_holders(node.holders), "; wanted ", shard.text());
  return {type};
}

std::vector<TensorType> known_type(const ShapeRequest& request, const TensorType& type) {
  SF_CHECK(type.shape.is_static(), ShapeError, request.label, ": shape ", type.shape, " must be known");
  return {type};
}

std::vector<TensorType> infer_placeholder(const ShapeRequest& request) {
  const auto& options = request.get<PlaceholderOptions>();
  SF_CHECK(!options.training_flag || options.type == (TensorType{Dtype::boolean, {}}), ArgumentError, request.label,
           ": the training flag is ", options.type.text(), "; wanted bool[]");
  return {options.type};
}

/// All variables get their initial values in one run, in which every reader of a variable sees what it held before.
void check_reads_no_variable(std::string_view name, Value initial_value) {
  std::set<NodeId> seen;
  std::vector<const Node*> pending = {&initial_value.node()};
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    if (!seen.insert(node.id()).second) continue;
    SF_CHECK(!node.op().is_variable(), ArgumentError, "variable '", name, "': its initial value '",
             initial_value.name(), "' depends on the variable '", node.name(),
             "', which has none yet; compute both from the same initial value");
    for (const Value& input : node.inputs()) pending.push_back(&input.node());
  }
}

}  // namespace

void define_basic_ops(OpRegistry& registry) {
  registry.add({.name = "placeholder",
                .inputs = 0,
                .options = described_by<PlaceholderOptions>([](auto& fields, auto& options) {
                  fields("type", options.type);
                  fields.usual_choice("flag", options.training_flag, {{false, "none"}, {true, "training"}});
                }),
                .infer = infer_placeholder,
                .role = OpRole::placeholder,
                .has_kernel = false});
  registry.add({.name = "variable",
                .inputs = 0,
                .options = described_by<VariableNode>([](auto& fields, auto& options) {
                  fields("type", options.type);
                  fields("trainable", options.options.trainable);
                  fields.operation("initializer", options.initializer);
                  fields.usual("shard_of", options.whole);
                  fields.usual("ranks", options.holders.ranks);
                  fields.usual("has_server", options.holders.has_server);
                  fields.usual("server", options.holders.server);
                }),
                .infer = infer_variable,
                .role = OpRole::variable,
                .has_kernel = false});
  registry.add({.name = "constant",
                .inputs = 0,
                .options = described_by<ConstantOptions>(
                    [](auto& fields, auto& options) { fields("content", options.content); }),
                .infer = [](const ShapeRequest& r) { return std::vector{r.get<ConstantOptions>().content->type()}; },
                .role = OpRole::constant});
  // As a constant, but with a place of its own in a session, which Session::initialize fills.
  registry.add({.name = "stored_constant",
                .inputs = 0,
                .options = described_by<ConstantOptions>(
                    [](auto& fields, auto& options) { fields("content", options.content); }),
                .infer = [](const ShapeRequest& r) { return std::vector{r.get<ConstantOptions>().content->type()}; },
                .role = OpRole::variable,
                .has_kernel = false});
  registry.add({.name = "fill",
                .inputs = 0,
                .options = described_by<FillOptions>([](auto& fields, auto& options) {
                  fields("type", options.type);
                  fields("value", options.value);
                }),
                .infer = [](const ShapeRequest& r) { return known_type(r, r.get<FillOptions>().type); },
                .role = OpRole::constant});
  registry.add({.name = "group",
                .inputs = 0,
                .infer = [](const ShapeRequest&) { return std::vector<TensorType>{}; },
                .has_kernel = false});
}

Value placeholder(Graph& graph, std::string_view name, Shape shape, Dtype dtype, Where where) {
  return graph.add_node("placeholder", {}, PlaceholderOptions{.type = {dtype, std::move(shape)}}, name, where).output();
}

Value variable(std::string_view name, Value initial_value, VariableOptions options, Where where) {
  Graph& graph = initial_value.graph();
  return graph.build_at(where, [&] {
    SF_CHECK(initial_value.shape().is_static(), ShapeError, "variable '", name, "': initial value '",
             initial_value.name(), "' has the shape ", initial_value.shape(),
             "; a variable needs every dimension known");
    check_reads_no_variable(name, initial_value);
    // Variables are there whatever branch is taken.
    const GraphScope outside = graph.enter_branch({});
    const auto shared = shared_variable(graph, name, {initial_value.shape(), initial_value.dtype(), options.trainable});
    if (shared) return *shared;
    graph.take_out_of_branches(initial_value);
    Value result = graph.add_node("variable", {}, VariableNode{initial_value.type(), options}, name).output();
    *result.node().options<VariableNode>().initializer = assign(result, initial_value);
    graph.add_to_collection(kVariables, result);
    if (options.trainable) graph.add_to_collection(kTrainableVariables, result);
    remember_variable(graph, name, result);
    return result;
  });
}

Value shard_of_value(std::string_view name, Value initial_value, const ShardHolders& holders) {
  Graph& graph = initial_value.graph();
  const TensorType& whole = initial_value.type();
  const GraphScope outside = graph.enter_branch({});
  VariableNode node{type_of_shard(whole, holders, std::string(name)), {.trainable = false}};
  node.whole = whole;
  node.holders = holders;
  Value result = graph.add_node("variable", {}, node, name).output();
  *result.node().options<VariableNode>().initializer =
      add_update("assign_shard", {result, initial_value}, 1, holders, {});
  return result;
}

ShardHolders holders_of_shard(Value variable) {
  SF_CHECK(is_variable(variable), ArgumentError, "'", variable.name(), "' is no variable but a ",
           variable.node().op().name);
  // A stored constant is whole.
  const bool is_whole = constant_content(variable) != nullptr;
  return is_whole ? ShardHolders{.ranks = 0} : variable.node().options<VariableNode>().holders;
}

Value gathered_of(Value variable) {
  (void)is_trainable(variable);  // which says where it is no variable
  if (constant_content(variable) != nullptr) return {};
  const Operation gathered = *variable.node().options<VariableNode>().gathered;
  if (!gathered.valid() || !gives_variable(gathered.node())) return {};
  return gathered.node().inputs()[1] == variable ? gathered.node().output() : Value();
}

Value master_of(Value variable) {
  if (constant_content(variable) != nullptr) return {};
  const Operation refresh = *variable.node().options<VariableNode>().gathered;
  if (!refresh.valid() || !refreshes_copy(refresh.node())) return {};
  return refresh.node().inputs()[0] == variable ? refresh.node().inputs()[1] : Value();
}

Value variable_of_shard(Value shard) {
  if (ranks_of_shard(shard) == 0) return {};
  const Operation gathered = *shard.node().options<VariableNode>().gathered;
  if (!gathered.valid()) return {};
  return gathered.node().inputs()[gives_variable(gathered.node()) ? 1 : 0];
}

void note_gathered(Node& gathered) {
  // Behind the variable and its shard a condition may stand.
  for (std::size_t i = 0; i < 2; ++i) {
    const Value variable = gathered.inputs()[i];
    if (constant_content(variable) != nullptr) continue;
    const auto known = variable.node().options<VariableNode>().gathered;
    *known = Operation(gathered);
    gathered.graph().on_roll_back([known] { *known = {}; });
  }
}

TensorType whole_type(Value variable) {
  return ranks_of_shard(variable) == 0 ? variable.type() : variable.node().options<VariableNode>().whole;
}

bool is_variable(Value value) {
  return value.node().op().is_variable();
}

bool is_trainable(Value variable) {
  SF_CHECK(is_variable(variable), ArgumentError, "is_trainable('", variable.name(), "'): that is no variable but a ",
           variable.node().op().name);
  return constant_content(variable) == nullptr && variable.node().options<VariableNode>().options.trainable;
}

bool is_known_on_host(Value value) {
  return value.node().op().is_placeholder() || constant_content(value) != nullptr;
}

bool is_training_flag(const Node& node) {
  const auto* options = std::any_cast<PlaceholderOptions>(&node.any_options());
  return options != nullptr && options->training_flag;
}

void check_host_boolean(Value boolean, std::string_view where) {
  SF_CHECK(is_known_on_host(boolean), ArgumentError, where, ": is_training '", boolean.name(), "' is computed by ",
           boolean.node().op().name, "; wanted a boolean placeholder or constant, since it chooses the kernel");
}

Operation initializer_of(Value variable) {
  SF_CHECK(is_variable(variable) && constant_content(variable) == nullptr, ArgumentError, "initializer_of('",
           variable.name(), "'): that is no variable but a ", variable.node().op().name);
  return *variable.node().options<VariableNode>().initializer;
}

Value initial_value_of(Value variable) {
  return initializer_of(variable).node().inputs()[1];
}

Value constant(Graph& graph, HostTensor tensor, std::string_view name, Where where) {
  ConstantOptions options{std::make_shared<const HostTensor>(std::move(tensor))};
  return graph.add_node("constant", {}, std::move(options), name, where).output();
}

Value constant(Graph& graph, float value, std::string_view name, Where where) {
  return constant(graph, HostTensor::scalar(value), name, where);
}

const HostTensor* constant_content(Value value) {
  const auto* options = std::any_cast<ConstantOptions>(&value.node().any_options());
  return options != nullptr ? options->content.get() : nullptr;
}

Value fill(Graph& graph, Shape shape, double value, Dtype dtype, std::string_view name, Where where) {
  return graph.build_at(where, [&] {
    SF_CHECK(shape.is_static(), ShapeError, "fill '", name, "': shape ", shape, " must be known");
    return graph.add_node("fill", {}, FillOptions{{dtype, std::move(shape)}, value}, name).output();
  });
}

Operation group(Graph& graph, const std::vector<Operation>& operations, std::string_view name, Where where) {
  return graph.build_at(where, [&] {
    Operation result(graph.add_node("group", {}, {}, name));
    for (Operation operation : operations) graph.add_control_edge(operation, result);
    return result;
  });
}

}  // namespace sectionflow

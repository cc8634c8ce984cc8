// Operations that hand on what they are given: their readers read that instead.

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"
#include "graph/traversal.h"
#include "transform/graph_copy.h"
#include "transform/transform.h"

namespace sectionflow {
namespace {

std::set<const OpDef*> ops_named(const std::vector<std::string>& names) {
  std::set<const OpDef*> ops;
  std::vector<std::string> known;
  for (const auto& [name, definition] : op_registry().all()) known.push_back(name);
  for (const std::string& name : names) {
    const auto found = op_registry().all().find(name);
    if (found == op_registry().all().end()) {
      const auto nearest = nearest_spelling(name, known);
      throw ArgumentError(text_of("transform_graph: remove_nodes: there is no op '", name, "'",
                                  nearest ? "; did you mean '" + *nearest + "'?" : std::string()));
    }
    SF_CHECK(found->second.movement == Movement::none, ArgumentError, "transform_graph: remove_nodes: '", name,
             "' moves values between host and device, for which each end needs the other",
             hint("take the graph as it is before swaps are put in"));
    ops.insert(&found->second);
  }
  return ops;
}

/// The only input whose elements the node reads; none where it has several, or gives something of another type.
std::optional<Value> handed_on(const Node& node) {
  if (node.output_types().size() != 1 || node.op().is_given() || !node.control_inputs().empty()) return std::nullopt;
  if (node.op().is_update()) return std::nullopt;
  const std::vector<InputUse> uses = node.op().input_uses(node.inputs().size(), known_booleans(node, constant_boolean));
  std::optional<Value> data;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != InputUse::data) continue;
    if (data) return std::nullopt;
    data = node.inputs()[i];
  }
  if (data && data->type() != node.output_types()[0]) return std::nullopt;
  return data;
}

/// What an operation of these stands for when it goes; none where it stays.
std::optional<Value> in_place_of(const Node& node, const std::set<const OpDef*>& ops, const TransformedGraph& given) {
  if (!ops.contains(&node.op())) return std::nullopt;
  const std::optional<Value> data = handed_on(node);
  if (!data || node.branch() != data->node().branch()) return std::nullopt;
  // An output keeps its name.
  const Value removed = given.graph.node(node.id()).output();
  const bool is_output = std::find(given.outputs.begin(), given.outputs.end(), removed) != given.outputs.end();
  return is_output ? std::nullopt : data;
}

bool keeps_values(const Node& node) {
  std::vector<TensorType> inputs;
  for (const Value& input : node.inputs()) inputs.push_back(input.type());
  const std::vector<std::optional<bool>> booleans = known_booleans(node, constant_boolean);
  return node.op().is_identity && node.op().is_identity({inputs, node.output_types(), booleans, node.any_options()});
}

/// The ranges of what has the same values afterwards: not of what is computed of a relu that is gone.
ValueRanges kept_ranges(const TransformedGraph& given, const std::set<const OpDef*>& ops) {
  ValueRanges kept = given.ranges;
  if (kept.empty()) return kept;
  std::set<const Node*> changed;
  for (const NodeId id : topological_order(DependencyGraph(given.graph))) {
    Node& node = given.graph.node(id);
    const bool is_behind = std::any_of(node.inputs().begin(), node.inputs().end(),
                                       [&](const Value& input) { return changed.contains(&input.node()); });
    if (!is_behind && (!in_place_of(node, ops, given) || keeps_values(node))) continue;
    changed.insert(&node);
    for (int i = 0; i < static_cast<int>(node.output_types().size()); ++i) kept.drop(node.output(i).name());
  }
  return kept;
}

}  // namespace

Transform remove_nodes_transform() {
  return {.parameters = {{.name = "op", .is_needed = true, .may_repeat = true}},
          .check = [](const TransformArguments& arguments) { (void)ops_named(arguments.texts("op")); },
          .apply =
              [](const TransformedGraph& given, const TransformArguments& arguments) {
                const std::set<const OpDef*> ops = ops_named(arguments.texts("op"));
                const ValueRanges ranges = kept_ranges(given, ops);
                GraphCopy copy(TransformedGraph{given.graph, given.outputs, ranges});
                copy.copy_all([&](const Node& node, GraphCopy& made) {
                  const std::optional<Value> data = in_place_of(node, ops, given);
                  if (data) made.map(given.graph.node(node.id()).output(), made.mapped(*data));
                  return data.has_value();
                });
                return copy.finish(given.outputs);
              }};
}

}  // namespace sectionflow

#include "tests/support/double_graph.h"

#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow::testing_support {
namespace {

const DoubleRules& double_rules() {
  static const DoubleRules rules = [] {
    DoubleRules all;
    add_elementwise_double_rules(all);
    add_moving_double_rules(all);
    add_layer_double_rules(all);
    all["constant"] = [](const DoubleRequest& r) {
      return std::vector<Doubles>{doubles_of(*r.node.options<ConstantOptions>().content)};
    };
    all["fill"] = [](const DoubleRequest& r) {
      return std::vector<Doubles>{Doubles(r.y_count(), r.node.options<FillOptions>().value)};
    };
    return all;
  }();
  return rules;
}

/// The nodes that compute `value` and are not fed, in the order of their making.
std::map<NodeId, Node*> needed_nodes(const std::vector<Value>& fetches, const DoubleFeeds& feeds) {
  std::map<NodeId, Node*> needed;
  std::vector<Value> pending = fetches;
  while (!pending.empty()) {
    const Value value = pending.back();
    pending.pop_back();
    if (feeds.contains(value) || !needed.emplace(value.node().id(), &value.node()).second) continue;
    for (const Value& input : value.node().inputs()) pending.push_back(input);
  }
  return needed;
}

}  // namespace

std::vector<Doubles> evaluate_in_double(const std::vector<Value>& fetches, DoubleFeeds feeds) {
  for (const auto& [id, node] : needed_nodes(fetches, feeds)) {
    const auto rule = double_rules().find(node->op().name);
    SF_CHECK(rule != double_rules().end(), ArgumentError, node->label(), " has no reference in double");
    DoubleRequest request{*node, {}};
    for (const Value& input : node->inputs()) request.inputs.push_back(&feeds.at(input));
    std::vector<Doubles> outputs = rule->second(request);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      feeds.emplace(node->output(static_cast<int>(i)), std::move(outputs[i]));
    }
  }
  std::vector<Doubles> results;
  for (const Value& fetch : fetches) results.push_back(feeds.at(fetch));
  return results;
}

}  // namespace sectionflow::testing_support

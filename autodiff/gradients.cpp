#include "autodiff/gradients.h"

#include <set>

#include "autodiff/gradient_registry.h"
#include "autodiff/gradient_sums.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// Whether gradients flow through input `index`: it is read as float data.
bool carries_gradient(const Node& node, std::size_t index) {
  const std::vector<std::optional<bool>> unknown(node.inputs().size());
  const InputUse use = node.op().input_uses(node.inputs().size(), unknown)[index];
  return is_floating(node.inputs()[index].dtype()) && use != InputUse::shape_only && use != InputUse::host_boolean;
}

/// Nodes through which a change of one of `sources` reaches later values, up to node `last`.
std::vector<bool> influenced_nodes(const Graph& graph, const std::set<Value>& sources, NodeId last) {
  std::vector<bool> influenced(static_cast<std::size_t>(last) + 1, false);
  for (NodeId id = 0; id <= last; ++id) {
    const Node& node = graph.node(id);
    if (gradient_registry().find(node.op().name) == nullptr) continue;
    for (std::size_t i = 0; i < node.inputs().size() && !influenced[id]; ++i) {
      const Value input = node.inputs()[i];
      SF_CHECK(input.node().id() < id, ArgumentError, "gradients through ", node.label(), ": its input '", input.name(),
               "' was put in later", hint("call gradients() and minimize() before Lms::run() and replace_input()"));
      influenced[id] = carries_gradient(node, i) && (sources.contains(input) || influenced[input.node().id()]);
    }
  }
  return influenced;
}

/// The inputs to which a gradient is wanted.
std::vector<bool> wanted_inputs(const Node& node, const std::set<Value>& sources, const std::vector<bool>& influenced) {
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value input = node.inputs()[i];
    wanted.push_back(carries_gradient(node, i) && (sources.contains(input) || influenced[input.node().id()]));
  }
  return wanted;
}

/// Has `sums` expect what the rules of all nodes on the way from the loss will contribute.
void expect_contributions(const Value& loss, const std::set<Value>& sources, const std::vector<bool>& influenced,
                          GradientSums& sums) {
  sums.expect(loss);
  for (NodeId id = loss.node().id(); id >= 0; --id) {
    if (!influenced[id]) continue;
    Node& node = loss.graph().node(id);
    bool is_reached = false;
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      is_reached = is_reached || sums.expects(node.output(output));
    }
    if (!is_reached) continue;
    const std::vector<bool> wanted = wanted_inputs(node, sources, influenced);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) sums.expect(node.inputs()[i]);
    }
  }
}

/// The gradients of the node's inputs, by its rule; invalid for none.
std::vector<Value> gradients_by_rule(const GradientRequest& request) {
  const Node& node = request.node;
  const auto place = node.graph().enter_place(node.where());
  const auto scope = node.graph().scope(node.name());
  return gradient_registry().find(node.op().name)(request);
}

/// Adds the nodes of one node's gradient rule, and what they contribute to the gradients of the node's inputs.
void differentiate(Node& node, const std::set<Value>& sources, const std::vector<bool>& influenced,
                   GradientSums& sums) {
  GradientRequest request{node, {}, {}};
  bool any = false;
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
    request.output_gradients.push_back(sums.total(node.output(output)));
    any = any || request.output_gradients.back().valid();
  }
  if (!any) return;
  request.wanted = wanted_inputs(node, sources, influenced);
  const auto group = node.graph().enter_group(node.group());
  const std::vector<Value> input_gradients = gradients_by_rule(request);
  std::vector<Contribution> contributions;
  for (std::size_t i = 0; i < input_gradients.size(); ++i) {
    if (request.wanted[i] && input_gradients[i].valid())
      contributions.push_back({node.inputs()[i], input_gradients[i]});
  }
  sums.contribute(contributions, node.group());
}

std::vector<Value> add_gradients(Value loss, const std::vector<Value>& variables) {
  Graph& graph = loss.graph();
  const std::set<Value> sources(variables.begin(), variables.end());
  const NodeId last = loss.node().id();
  const std::vector<bool> influenced = influenced_nodes(graph, sources, last);

  const auto phase = graph.enter_phase(Phase::training);
  const auto group = graph.enter_group(loss.node().group());
  const auto scope = graph.scope("gradients");
  GradientSums sums;
  expect_contributions(loss, sources, influenced, sums);
  sums.contribute({{loss, fill(graph, {}, 1.0, Dtype::f32, "loss_gradient")}}, loss.node().group());
  for (NodeId id = last; id >= 0; --id) {
    if (influenced[id]) differentiate(graph.node(id), sources, influenced, sums);
  }

  std::vector<Value> results;
  for (const Value& variable : variables) {
    results.push_back(sums.total(variable));
    SF_CHECK_CODE(results.back().valid(), ArgumentError, ErrorCode::no_gradient, "variable '", variable.name(),
                  "' is not reached from the loss '", loss.name(), "'", Fact{"variable", variable.node().place()},
                  Fact{"loss", loss.node().place()},
                  hint("leave it out of the variables to train, or use it in the model"));
  }
  return results;
}

}  // namespace

std::vector<Value> gradients(Value loss, const std::vector<Value>& variables) {
  Graph& graph = loss.graph();
  SF_CHECK(loss.type() == (TensorType{Dtype::f32, {}}), ShapeError, "gradients of '", loss.name(), "': the loss is ",
           loss.type().text(), "; wanted a f32 scalar; try mean(loss)");
  for (const Value& variable : variables) {
    SF_CHECK(&variable.graph() == &graph, ArgumentError, "gradients of '", loss.name(), "': variable '",
             variable.name(), "' belongs to another graph");
  }
  // Whether a variable is reached is known only when the rules have been asked: what they added goes again if not.
  return graph.all_or_nothing([&] { return add_gradients(loss, variables); });
}

}  // namespace sectionflow

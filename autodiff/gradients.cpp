#include "autodiff/gradients.h"

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/gradient_registry.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// One summand of the gradient of a value, from the node that reads the value as its input `input`.
struct Contribution {
  NodeId reader;
  int input;
  GroupId group;  ///< the reader's; a gradient that is passed on unchanged was made in another
  Value gradient;
};
using Contributions = std::map<Value, std::vector<Contribution>>;

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

/// The group in which a sum of contributions belongs: that of its parts where they agree, else the value's own.
GroupId group_of_sum(const Value& value, const std::vector<Contribution>& parts) {
  const GroupId first = parts.front().group;
  const bool agree =
      std::all_of(parts.begin(), parts.end(), [&](const Contribution& part) { return part.group == first; });
  return agree ? first : value.node().group();
}

/// The gradient of `value`: its contributions, summed in the order of their readers. Invalid when there is none.
Value summed(const Value& value, Contributions& contributions) {
  const auto found = contributions.find(value);
  if (found == contributions.end()) return {};
  std::vector<Contribution>& parts = found->second;
  if (parts.size() == 1) return parts.front().gradient;
  std::sort(parts.begin(), parts.end(), [](const Contribution& a, const Contribution& b) {
    return std::pair(a.reader, a.input) < std::pair(b.reader, b.input);
  });
  std::vector<Value> terms;
  for (const Contribution& part : parts) terms.push_back(part.gradient);
  const GroupId group = group_of_sum(value, parts);
  const auto entered = value.graph().enter_group(group);
  const auto place = value.graph().enter_place(value.node().where());
  parts = {{value.node().id(), 0, group, add_n(terms)}};
  return parts.front().gradient;
}

/// Adds the nodes of one node's gradient rule and books what they contribute to the node's inputs.
void differentiate(Node& node, const std::set<Value>& sources, const std::vector<bool>& influenced,
                   Contributions& contributions) {
  GradientRequest request{node, {}, {}};
  bool any = false;
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
    request.output_gradients.push_back(summed(node.output(output), contributions));
    any = any || request.output_gradients.back().valid();
  }
  if (!any) return;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value input = node.inputs()[i];
    request.wanted.push_back(carries_gradient(node, i) && (sources.contains(input) || influenced[input.node().id()]));
  }
  const auto group = node.graph().enter_group(node.group());
  const auto place = node.graph().enter_place(node.where());
  const auto scope = node.graph().scope(node.name());
  const std::vector<Value> input_gradients = gradient_registry().find(node.op().name)(request);
  for (std::size_t i = 0; i < input_gradients.size(); ++i) {
    if (!request.wanted[i] || !input_gradients[i].valid()) continue;
    contributions[node.inputs()[i]].push_back({node.id(), static_cast<int>(i), node.group(), input_gradients[i]});
  }
}

std::vector<Value> add_gradients(Value loss, const std::vector<Value>& variables) {
  Graph& graph = loss.graph();
  const std::set<Value> sources(variables.begin(), variables.end());
  const NodeId last = loss.node().id();
  const std::vector<bool> influenced = influenced_nodes(graph, sources, last);

  const auto phase = graph.enter_phase(Phase::training);
  const auto group = graph.enter_group(loss.node().group());
  const auto scope = graph.scope("gradients");
  Contributions contributions;
  contributions[loss].push_back({last + 1, 0, loss.node().group(), fill(graph, {}, 1.0, Dtype::f32, "loss_gradient")});
  for (NodeId id = last; id >= 0; --id) {
    if (influenced[id]) differentiate(graph.node(id), sources, influenced, contributions);
  }

  std::vector<Value> results;
  for (const Value& variable : variables) {
    results.push_back(summed(variable, contributions));
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

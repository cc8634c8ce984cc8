#include "autodiff/gradients.h"

#include <algorithm>
#include <map>
#include <set>

#include "autodiff/gradient_path.h"
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

/// What gradients are taken of, and by which rules.
struct Differentiation {
  const GradientRegistry& registry;
  Value loss;
  std::set<Value> sources;
  std::vector<bool> influenced{};  ///< nodes through which a change of a source reaches later values

  bool depends_on_sources(const Value& value) const {
    return sources.contains(value) || influenced[static_cast<std::size_t>(value.node().id())];
  }
};

/// Fills in the nodes through which a change of a source reaches later values, up to the loss.
void find_influenced(Differentiation& d) {
  const NodeId last = d.loss.node().id();
  d.influenced.assign(static_cast<std::size_t>(last) + 1, false);
  for (NodeId id = 0; id <= last; ++id) {
    const Node& node = d.loss.graph().node(id);
    const GradientEntry* entry = d.registry.find(node.op().name);
    if ((entry != nullptr && entry->is_zero()) || node.output_types().empty()) continue;
    for (std::size_t i = 0; i < node.inputs().size() && !d.influenced[id]; ++i) {
      const Value input = node.inputs()[i];
      SF_CHECK(input.node().id() < id, ArgumentError, "gradients through ", node.label(), ": its input '", input.name(),
               "' was put in later", hint("call gradients() and minimize() before Lms::run() and replace_input()"));
      d.influenced[id] = carries_gradient(d.registry, node, i) && d.depends_on_sources(input);
    }
  }
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

/// Asks the rule of the node. Throws: what the rule throws, with the way from a source to the loss.
std::vector<Value> input_gradients(const Differentiation& d, const GradientRequest& request) {
  const Node& node = request.node;
  const GradientEntry* entry = d.registry.find(node.op().name);
  try {
    SF_CHECK_CODE(entry != nullptr, ArgumentError, ErrorCode::no_gradient_rule, node.label(),
                  " has no gradient rule, and the loss '", d.loss.name(), "' depends on it",
                  hint("put stop_gradient() in front of it if what it computes is to count as constant, or compute it "
                       "by operations that have a gradient"));
    return entry->rule(request);
  } catch (Error& error) {
    error.add_fact("where", node.place());
    error.add_fact("path", path_text(d.sources, node, d.loss));
    throw;
  }
}

/// A rule that leaves out what was asked for, or gives another type, would make gradients wrong without a word.
void check_promises(const GradientRequest& request, const GradientTraits& traits, const std::vector<Value>& gradients) {
  const Node& node = request.node;
  for (std::size_t i = 0; i < request.wanted.size(); ++i) {
    if (!request.wanted[i]) continue;
    const bool given = i < gradients.size() && gradients[i].valid();
    const bool may_miss = std::find(traits.perhaps_none.begin(), traits.perhaps_none.end(), static_cast<int>(i)) !=
                          traits.perhaps_none.end();
    SF_CHECK(given || may_miss, InternalError, node.label(), ": its gradient rule gave none for input ", i, ", '",
             node.inputs()[i].name(), "'");
    SF_CHECK(!given || may_agree(gradients[i].type(), node.inputs()[i].type()), InternalError, node.label(),
             ": its gradient rule gave ", gradients[i].type().text(), " for input ", i, ", '", node.inputs()[i].name(),
             "', which is ", node.inputs()[i].type().text());
  }
}

/// Adds the nodes of one node's gradient rule and books what they contribute to the node's inputs.
void differentiate(const Differentiation& d, Node& node, Contributions& contributions) {
  GradientRequest request{node, {}, {}};
  bool any = false;
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
    request.output_gradients.push_back(summed(node.output(output), contributions));
    any = any || request.output_gradients.back().valid();
  }
  if (!any) return;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    request.wanted.push_back(carries_gradient(d.registry, node, i) && d.depends_on_sources(node.inputs()[i]));
  }
  const auto group = node.graph().enter_group(node.group());
  const auto place = node.graph().enter_place(node.where());
  const auto scope = node.graph().scope(node.name());
  const std::vector<Value> given = input_gradients(d, request);
  check_promises(request, d.registry.find(node.op().name)->traits, given);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!request.wanted[i] || !given[i].valid()) continue;
    contributions[node.inputs()[i]].push_back({node.id(), static_cast<int>(i), node.group(), given[i]});
  }
}

/// Throws: ArgumentError that names the operation which stopped the gradient on its way to `variable`, if there is one.
[[noreturn]] void refuse_unreached(const Differentiation& d, Value variable) {
  const Node* stop = stopping_node(d.registry, variable, d.loss);
  const std::string by = stop == nullptr ? "" : text_of(": ", stop->label(), " passes no gradient on");
  ArgumentError error(
      error_text_of("variable '", variable.name(), "' is not reached from the loss '", d.loss.name(), "'", by,
                    Fact{"variable", variable.node().place()}, Fact{"loss", d.loss.node().place()}),
      ErrorCode::no_gradient);
  if (stop != nullptr) {
    error.add_fact("stopped", stop->place());
    error.add_fact("path", path_text({variable}, *stop, d.loss));
  }
  error.add_fact("hint", stop == nullptr
                             ? "leave it out of the variables to train, or use it in the model"
                             : "leave it out of the variables to train, or let another way lead to the loss");
  throw error;
}

std::vector<Value> add_gradients(Differentiation d, const std::vector<Value>& variables) {
  Graph& graph = d.loss.graph();
  const NodeId last = d.loss.node().id();
  find_influenced(d);

  const auto phase = graph.enter_phase(Phase::training);
  const auto group = graph.enter_group(d.loss.node().group());
  const auto scope = graph.scope("gradients");
  Contributions contributions;
  contributions[d.loss].push_back(
      {last + 1, 0, d.loss.node().group(), fill(graph, {}, 1.0, Dtype::f32, "loss_gradient")});
  for (NodeId id = last; id >= 0; --id) {
    if (d.influenced[id]) differentiate(d, graph.node(id), contributions);
  }

  std::vector<Value> results;
  for (const Value& variable : variables) {
    results.push_back(summed(variable, contributions));
    if (!results.back().valid()) refuse_unreached(d, variable);
  }
  return results;
}

}  // namespace

std::vector<Value> gradients(Value loss, const std::vector<Value>& variables) {
  return gradients_by(gradient_registry(), loss, variables);
}

std::vector<Value> gradients_by(const GradientRegistry& registry, Value loss, const std::vector<Value>& variables) {
  Graph& graph = loss.graph();
  SF_CHECK(loss.type() == (TensorType{Dtype::f32, {}}), ShapeError, "gradients of '", loss.name(), "': the loss is ",
           loss.type().text(), "; wanted a f32 scalar; try mean(loss)");
  for (const Value& variable : variables) {
    SF_CHECK(&variable.graph() == &graph, ArgumentError, "gradients of '", loss.name(), "': variable '",
             variable.name(), "' belongs to another graph");
  }
  // Whether a variable is reached is known only when the rules have been asked: what they added goes again if not.
  return graph.all_or_nothing([&] {
    return add_gradients({registry, loss, {variables.begin(), variables.end()}}, variables);
  });
}

}  // namespace sectionflow

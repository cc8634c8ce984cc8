#include "autodiff/gradients.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "autodiff/gradient_path.h"
#include "autodiff/gradient_registry.h"
#include "autodiff/gradient_sums.h"
#include "graph/device_scope.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

/// What gradients are taken of, and by which rules.
struct Differentiation {
  const GradientRegistry& registry;
  Value loss;
  std::set<Value> sources;
  std::vector<bool> influenced{};  ///< nodes through which a change of a source reaches later values
  std::map<NodeId, NamedDevice> devices = named_devices(loss.graph());

  bool depends_on_sources(const Value& value) const {
    return sources.contains(value) || influenced[static_cast<std::size_t>(value.node().id())];
  }
};

/// Nodes from which inputs that carry gradients lead to the loss, by falling number, though inputs that were put in
/// later may have larger numbers than the loss.
std::vector<NodeId> leading_to(const Value& loss, const GradientRegistry& registry) {
  std::set<NodeId, std::greater<>> leads{loss.node().id()};
  std::vector<NodeId> open{loss.node().id()};
  while (!open.empty()) {
    const Node& node = loss.graph().node(open.back());
    open.pop_back();
    for (std::size_t i = 0; i < node.inputs().size(); ++i) {
      const NodeId input = node.inputs()[i].node().id();
      if (carries_gradient(registry, node, i) && leads.insert(input).second) open.push_back(input);
    }
  }
  return {leads.begin(), leads.end()};
}

/// Whether a change of a source reaches an input of the node that carries gradients.
bool is_influenced(const Differentiation& d, const Node& node) {
  const GradientEntry* entry = d.registry.find(node.op().name);
  if ((entry != nullptr && entry->is_zero()) || node.output_types().empty()) return false;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    if (carries_gradient(d.registry, node, i) && d.depends_on_sources(node.inputs()[i])) return true;
  }
  return false;
}

/// Rules are asked by falling number, so that the readers of a value must come after it. Throws: ArgumentError.
void check_order(const Differentiation& d, const Node& node) {
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    const Value input = node.inputs()[i];
    if (!carries_gradient(d.registry, node, i)) continue;
    SF_CHECK(input.node().id() < node.id(), ArgumentError, "gradients through ", node.label(), ": its input '",
             input.name(), "' was put in later",
             hint("call gradients() and minimize() before Lms::run() and replace_input()"));
  }
}

/// Fills in the nodes between a source and the loss. What leads to the loss from no source is never differentiated, in
/// whatever order it stands.
void find_influenced(Differentiation& d) {
  const Graph& graph = d.loss.graph();
  const std::vector<NodeId> leads = leading_to(d.loss, d.registry);
  d.influenced.assign(static_cast<std::size_t>(graph.num_nodes()), false);
  // Once, but where inputs were put in later.
  for (bool grows = true; grows;) {
    grows = false;
    for (auto id = leads.rbegin(); id != leads.rend(); ++id) {
      if (d.influenced[static_cast<std::size_t>(*id)] || !is_influenced(d, graph.node(*id))) continue;
      d.influenced[static_cast<std::size_t>(*id)] = grows = true;
    }
  }
  for (auto id = leads.rbegin(); id != leads.rend(); ++id) {
    if (d.influenced[static_cast<std::size_t>(*id)]) check_order(d, graph.node(*id));
  }
}

/// The inputs to which a gradient is wanted.
std::vector<bool> wanted_inputs(const Differentiation& d, const Node& node) {
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < node.inputs().size(); ++i) {
    wanted.push_back(carries_gradient(d.registry, node, i) && d.depends_on_sources(node.inputs()[i]));
  }
  return wanted;
}

/// Has `sums` expect what the rules of all nodes on the way from the loss will contribute.
void expect_contributions(const Differentiation& d, GradientSums& sums) {
  sums.expect(d.loss, d.loss.node().branch());
  for (NodeId id = d.loss.node().id(); id >= 0; --id) {
    if (!d.influenced[id]) continue;
    Node& node = d.loss.graph().node(id);
    bool is_reached = false;
    for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
      is_reached = is_reached || sums.expects(node.output(output));
    }
    if (!is_reached) continue;
    const std::vector<bool> wanted = wanted_inputs(d, node);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i]) sums.expect(node.inputs()[i], node.branch());
    }
  }
}

/// Asks the rule of the node. Throws: what the rule throws, with the way from a source to the loss.
std::vector<Value> input_gradients(const Differentiation& d, const GradientRequest& request) {
  const Node& node = request.node;
  const GradientEntry* entry = d.registry.find(node.op().name);
  const auto place = node.graph().enter_place(node.where());
  const auto scope = node.graph().scope(node.name());
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

/// Refuses what the rule of the node has given; one from outside is the user's to mend.
[[noreturn]] void refuse_gradients(const Differentiation& d, const Node& node, const std::string& what) {
  const std::string text = text_of(node.label(), ": its gradient rule gave ", what);
  if (!d.registry.find(node.op().name)->is_outside) throw InternalError(text);
  ArgumentError error(error_text_of(
      text, hint("mend the rule that was registered for '", node.op().name, "': it gives one value for each input, ",
                 "like that input, and an empty one where GradientRequest::wanted is false")));
  error.add_fact("where", node.place());
  error.add_fact("path", path_text(d.sources, node, d.loss));
  throw error;
}

/// A rule that leaves out what was asked for, or gives another type, would make gradients wrong without a word.
void check_promises(const Differentiation& d, const GradientRequest& request, const GradientTraits& traits,
                    const std::vector<Value>& gradients) {
  const Node& node = request.node;
  const std::size_t count = request.wanted.size();
  if (gradients.size() > count) {
    refuse_gradients(d, node, text_of(gradients.size(), " gradients for ", count, count == 1 ? " input" : " inputs"));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!request.wanted[i]) continue;
    const bool given = i < gradients.size() && gradients[i].valid();
    const bool may_miss = std::find(traits.perhaps_none.begin(), traits.perhaps_none.end(), static_cast<int>(i)) !=
                          traits.perhaps_none.end();
    const Value& input = node.inputs()[i];
    if (!given && !may_miss) refuse_gradients(d, node, text_of("none for input ", i, ", '", input.name(), "'"));
    if (!given) continue;
    const Value& gradient = gradients[i];
    if (&gradient.graph() != &node.graph()) {
      refuse_gradients(d, node, text_of("'", gradient.name(), "' of another graph for input ", i));
    }
    if (!may_agree(gradient.type(), input.type())) {
      refuse_gradients(
          d, node,
          text_of(gradient.type().text(), " for input ", i, ", '", input.name(), "', which is ", input.type().text()));
    }
  }
}

/// What the node contributes to sums that it adds to itself, whose inputs the rule is not asked for then.
std::vector<Contribution> add_to_sums(const Differentiation& d, GradientRequest& request, const GradientSums& sums) {
  const Node& node = request.node;
  const GradientEntry* entry = d.registry.find(node.op().name);
  if (entry == nullptr || !entry->traits.added_to_sum) return {};
  const auto place = node.graph().enter_place(node.where());
  const auto scope = node.graph().scope(node.name());
  std::vector<Contribution> contributions;
  for (std::size_t i = 0; i < request.wanted.size(); ++i) {
    const Value input = node.inputs()[i];
    if (!request.wanted[i] || std::ranges::count(node.inputs(), input) > 1) continue;
    const Value sum = sums.open_sum(input, node.branch());
    const Value with = sum.valid() ? entry->traits.added_to_sum(request, static_cast<int>(i), sum) : Value();
    if (!with.valid()) continue;
    if (&with.graph() != &node.graph() || !may_agree(with.type(), input.type())) {
      refuse_gradients(d, node,
                       text_of("a sum of ", with.type().text(), " for input ", i, ", '", input.name(), "', which is ",
                               input.type().text()));
    }
    request.wanted[i] = false;
    contributions.push_back({input, with, true});
  }
  return contributions;
}

/// Adds the nodes of one node's gradient rule, and what they contribute to the gradients of the node's inputs.
void differentiate(const Differentiation& d, Node& node, GradientSums& sums) {
  GradientRequest request{node, {}, {}};
  bool any = false;
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output) {
    request.output_gradients.push_back(sums.total(node.output(output)));
    any = any || request.output_gradients.back().valid();
  }
  if (!any) return;
  request.wanted = wanted_inputs(d, node);
  const auto group = node.graph().enter_group(node.group());
  const auto branch = node.graph().enter_branch(node.branch());
  const NodeId first = node.graph().num_nodes();
  std::vector<Contribution> contributions = add_to_sums(d, request, sums);
  std::vector<Value> given;
  if (std::ranges::find(request.wanted, true) != request.wanted.end()) {
    given = input_gradients(d, request);
    check_promises(d, request, d.registry.find(node.op().name)->traits, given);
  }
  if (const auto device = d.devices.find(node.id()); device != d.devices.end()) {
    name_device_from(node.graph(), first, device->second);
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (request.wanted[i] && given[i].valid()) contributions.push_back({node.inputs()[i], given[i]});
  }
  sums.contribute(contributions, {node.group(), node.branch()});
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
  GradientSums sums;
  expect_contributions(d, sums);
  sums.contribute({{d.loss, fill(graph, {}, 1.0, Dtype::f32, "loss_gradient")}},
                  {d.loss.node().group(), d.loss.node().branch()});
  for (NodeId id = last; id >= 0; --id) {
    if (d.influenced[id]) differentiate(d, graph.node(id), sums);
  }

  std::vector<Value> results;
  for (const Value& variable : variables) {
    results.push_back(sums.total(variable));
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

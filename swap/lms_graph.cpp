#include "swap/lms_graph.h"

#include <algorithm>

#include "base/nearest.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"

namespace sectionflow {
namespace {

void make_set(NodeSet& nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
}

/// Whether the node may read the bytes of its input `index`, whatever the booleans are.
std::vector<bool> reads_bytes(const Node& node) {
  const std::vector<std::optional<bool>> unknown(node.inputs().size());
  std::vector<bool> reads;
  for (const InputUse use : node.op().input_uses(node.inputs().size(), unknown))
    reads.push_back(use != InputUse::shape_only);
  return reads;
}

bool has_prefix(const std::string& name, const std::set<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.starts_with(prefix); });
}

/// A batch norm whose statistics are, by a constant, those of the other mode.
bool is_of_other_mode(const Node& node, bool is_training) {
  if (!node.op().name.starts_with("batch_norm")) return false;
  const std::vector<std::optional<bool>> unknown(node.inputs().size());
  const auto uses = node.op().input_uses(node.inputs().size(), unknown);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i] != InputUse::host_boolean) continue;
    const HostTensor* content = constant_content(node.inputs()[i]);
    if (content != nullptr && content->item<bool>() != is_training) return true;
  }
  return false;
}

[[noreturn]] void throw_unmatched(const char* parameter, const char* kind, const std::string& wanted,
                                  const std::vector<std::string>& known) {
  const auto nearest = nearest_spelling(wanted, known);
  throw ArgumentError(error_text_of("Lms: ", parameter, " has '", wanted, "', and no node of the graph has that ", kind,
                                    nearest ? hint("did you mean '", *nearest, "'?")
                                            : hint("leave it out, or look at write_dot(stream, graph)")),
                      ErrorCode::lms_scope);
}

}  // namespace

LmsGraph::LmsGraph(const Graph& graph, const LmsOptions& options)
    : graph_(&graph), batch_size_(options.batch_size), trainable_(at(graph.num_nodes()), false) {
  for (const Value& variable : graph.values(kTrainableVariables)) trainable_[at(variable.node().id())] = true;
  connect();
  find_inactive(options.is_training);
  find_update_followers();
  source_ = permitted(options.incl_output_by_scopes, options.incl_output_by_types, options.excl_output_by_scopes,
                      options.excl_output_by_types, "output");
  destination_ = permitted(options.incl_input_by_scopes, options.incl_input_by_types, options.excl_input_by_scopes,
                           options.excl_input_by_types, "input");
}

void LmsGraph::connect() {
  const std::size_t size = at(num_nodes());
  for (auto* sets : {&fan_in_, &fan_out_, &control_in_, &control_out_}) sets->resize(size);
  for (NodeId id = 0; id < num_nodes(); ++id) consumers_.emplace_back(graph_->node(id).output_types().size());
  for (NodeId id = 0; id < num_nodes(); ++id) {
    const Node& node = graph_->node(id);
    const std::vector<bool> reads = reads_bytes(node);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (!reads[i]) continue;
      const Value input = node.inputs()[i];
      fan_in_[at(id)].push_back(input.node().id());
      NodeSet& readers = consumers_[at(input.node().id())][static_cast<std::size_t>(input.output())];
      if (readers.empty() || readers.back() != id) readers.push_back(id);
    }
    for (const auto* inputs : {&node.control_inputs(), &node.order_inputs()}) {
      for (const Node* before : *inputs) control_in_[at(id)].push_back(before->id());
    }
    make_set(fan_in_[at(id)]);
    make_set(control_in_[at(id)]);
    for (NodeId before : fan_in_[at(id)]) fan_out_[at(before)].push_back(id);
    for (NodeId before : control_in_[at(id)]) control_out_[at(before)].push_back(id);
  }
}

int LmsGraph::num_edges() const {
  std::size_t count = 0;
  for (NodeId id = 0; id < num_nodes(); ++id) {
    NodeSet producers;
    for (const Value& input : graph_->node(id).inputs()) producers.push_back(input.node().id());
    make_set(producers);
    count += producers.size();
  }
  return static_cast<int>(count);
}

void LmsGraph::find_inactive(bool is_training) {
  valid_.assign(at(num_nodes()), true);
  for (NodeId id = 0; id < num_nodes(); ++id) valid_[at(id)] = !is_of_other_mode(graph_->node(id), is_training);
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeId id = 0; id < num_nodes(); ++id) {
      if (!valid_[at(id)]) continue;
      bool any_inactive = false, all_known = true;
      for (const NodeSet* inputs : {&fan_in(id), &control_in(id)}) {
        for (NodeId input : *inputs) {
          const OpDef& op = graph_->node(input).op();
          any_inactive = any_inactive || !is_valid(input);
          all_known = all_known && (!is_valid(input) || op.outlives_runs());
        }
      }
      if (!any_inactive || !all_known) continue;
      valid_[at(id)] = false;
      changed = true;
    }
  }
}

void LmsGraph::find_update_followers() {
  follows_update_.assign(at(num_nodes()), false);
  std::vector<NodeId> pending;
  const auto mark = [&](NodeId id) {
    if (follows_update_[at(id)]) return;
    follows_update_[at(id)] = true;
    pending.push_back(id);
  };
  for (NodeId id = 0; id < num_nodes(); ++id) {
    if (graph_->node(id).op().is_update()) mark(id);
  }
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    for (NodeId after : fan_out(id)) mark(after);
    for (NodeId after : control_out(id)) mark(after);
  }
}

std::vector<bool> LmsGraph::matching(const std::set<std::string>& scopes, const std::set<std::string>& types,
                                     const char* parameter) const {
  std::vector<bool> found;
  std::vector<std::string> names, ops;
  for (NodeId id = 0; id < num_nodes(); ++id) {
    const Node& node = graph_->node(id);
    found.push_back(has_prefix(node.name(), scopes) || types.contains(node.op().name));
    names.push_back(node.name());
    ops.push_back(node.op().name);
  }
  const std::string by_scopes = text_of(parameter, "_by_scopes"), by_types = text_of(parameter, "_by_types");
  for (const std::string& scope : scopes) {
    const bool known =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return name.starts_with(scope); });
    if (!known) throw_unmatched(by_scopes.c_str(), "prefix of its name", scope, names);
  }
  for (const std::string& type : types) {
    if (std::find(ops.begin(), ops.end(), type) == ops.end()) throw_unmatched(by_types.c_str(), "op", type, ops);
  }
  return found;
}

std::vector<bool> LmsGraph::permitted(const std::set<std::string>& incl_scopes, const std::set<std::string>& incl_types,
                                      const std::set<std::string>& excl_scopes, const std::set<std::string>& excl_types,
                                      const char* side) const {
  const std::vector<bool> included = matching(incl_scopes, incl_types, text_of("incl_", side).c_str());
  const std::vector<bool> excluded = matching(excl_scopes, excl_types, text_of("excl_", side).c_str());
  const bool all = incl_scopes.empty() && incl_types.empty();
  std::vector<bool> result;
  for (NodeId id = 0; id < num_nodes(); ++id) {
    result.push_back((all || included[at(id)]) && !excluded[at(id)] && !is_built_in(id) && is_gpu(id) && is_valid(id));
  }
  return result;
}

bool LmsGraph::is_built_in(NodeId id) const {
  const OpDef& op = graph_->node(id).op();
  const bool draws_from_nothing = op.recompute == Recompute::seeded && op.inputs.most == 0;
  return op.is_given() || op.is_update() || draws_from_nothing;
}

std::size_t LmsGraph::bytes(Value value) const {
  std::size_t count = 1;
  const auto& dims = value.shape().dims();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t known = dims[i] != kDynamic ? dims[i] : i == 0 ? batch_size_.value_or(1) : 1;
    count *= static_cast<std::size_t>(known);
  }
  return count * dtype_bytes(value.dtype());
}

std::size_t LmsGraph::op_bytes(NodeId id) const {
  Node& node = graph_->node(id);
  std::size_t sum = 0;
  for (const Value& input : node.inputs()) sum += bytes(input);
  for (int output = 0; output < static_cast<int>(node.output_types().size()); ++output)
    sum += bytes(node.output(output));
  if (node.op().is_update()) {
    sum += bytes(node.inputs()[static_cast<std::size_t>(node.op().updated_inputs.front())]);
  }
  return sum;
}

std::size_t LmsGraph::parameter_bytes() const {
  std::size_t sum = 0;
  for (const Value& variable : graph_->values(kTrainableVariables)) sum += bytes(variable);
  return sum;
}

}  // namespace sectionflow

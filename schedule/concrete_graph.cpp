#include "schedule/concrete_graph.h"

#include <algorithm>

#include "base/error.h"
#include "base/nearest.h"
#include "graph/nodes/shards.h"
#include "graph/ops/basic.h"

namespace sectionflow {

ConcreteGraph::ConcreteGraph(const Graph& graph, const Signature& signature)
    : graph_(&graph),
      signature_(&signature),
      details_(static_cast<std::size_t>(graph.num_nodes())),
      types_(static_cast<std::size_t>(graph.num_nodes())) {}

const std::vector<TensorType>& ConcreteGraph::types(NodeId id) const {
  if (!types_[id]) {
    // Depth first without recursion: a deep network would overflow the stack.
    std::vector<NodeId> pending = {id};
    while (!pending.empty()) {
      const NodeId next = pending.back();
      const std::size_t before = pending.size();
      const Node& node = graph_->node(next);
      const std::vector<InputUse> uses = known_uses(node);
      for (std::size_t i = 0; i < uses.size(); ++i) {
        const NodeId input = node.inputs()[i].node().id();
        if (uses[i] != InputUse::unused && !types_[input]) pending.push_back(input);
      }
      if (pending.size() > before) continue;
      infer_types(next);
      pending.pop_back();
    }
  }
  return *types_[id];
}

void ConcreteGraph::infer_types(NodeId id) const {
  const Node& node = graph_->node(id);
  const auto fed = signature_->shapes.find(id);
  if (fed != signature_->shapes.end()) {
    types_[id] = std::vector<TensorType>{{node.output_types()[0].dtype, fed->second}};
    return;
  }
  if (signature_->elsewhere.contains(id)) {
    types_[id] = std::vector<TensorType>{{node.output_types()[0].dtype, {0}}};
    return;
  }
  const std::vector<TensorType> inputs = input_types(id);
  try {
    types_[id] = node.op().infer({node.label(), inputs, node.any_options()});
  } catch (Error& error) {
    error.add_fact("where", node.place());
    throw;
  }
  for (const TensorType& type : *types_[id]) {
    SF_CHECK(type.shape.is_static(), ArgumentError, node.label(), ": its shape ", type.shape,
             " is decided by a feed that is missing");
  }
}

std::vector<TensorType> ConcreteGraph::input_types(NodeId id) const {
  const Node& node = graph_->node(id);
  const std::vector<InputUse> uses = known_uses(node);
  std::vector<TensorType> inputs;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Value input = node.inputs()[i];
    inputs.push_back(uses[i] == InputUse::unused ? input.type() : type(input));
  }
  return inputs;
}

/// Uses as far as the booleans are known: types are asked for before all of them are.
std::vector<InputUse> ConcreteGraph::known_uses(const Node& node) const {
  const std::size_t num_inputs = node.inputs().size();
  std::vector<std::optional<bool>> booleans(num_inputs);
  if (!node.op().uses) return node.op().input_uses(num_inputs, booleans);
  const std::vector<InputUse> declared = node.op().input_uses(num_inputs, booleans);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (declared[i] == InputUse::host_boolean) booleans[i] = known_boolean(node.inputs()[i]);
  }
  return node.op().input_uses(num_inputs, booleans);
}

std::optional<bool> ConcreteGraph::known_boolean(Value value) const {
  const auto fed = signature_->booleans.find(value.node().id());
  if (fed != signature_->booleans.end()) return fed->second;
  if (const HostTensor* content = constant_content(value)) return content->item<bool>();
  return std::nullopt;
}

bool ConcreteGraph::is_branch_taken(Branch branch, const Node& reader) const {
  // One flag around that says no is enough: those within need not be fed.
  for (Branch around = branch; around.exists(); around = around.around()) {
    const std::optional<bool> known = known_boolean(around.flag());
    if (known && *known != around.when) return false;
  }
  for (; branch.exists(); branch = branch.around()) {
    if (boolean_of(branch.flag(), reader) != branch.when) return false;
  }
  return true;
}

bool ConcreteGraph::boolean_of(Value value, const Node& reader) const {
  if (const std::optional<bool> known = known_boolean(value)) return *known;
  std::vector<std::string> fed_names;
  for (const auto& [id, shape] : signature_->shapes) {
    if (!signature_->decided.contains(id)) fed_names.push_back(graph_->node(id).name());
  }
  throw_missing_feed(value.node(), &reader, fed_names);
}

const ConcreteGraph::Details& ConcreteGraph::details(NodeId id) const {
  if (details_[id]) return *details_[id];
  const Node& node = graph_->node(id);
  const std::size_t num_inputs = node.inputs().size();
  Details details;
  details.booleans.resize(num_inputs);
  if (!is_branch_taken(node.branch(), node)) {
    details.uses.assign(num_inputs, InputUse::unused);
    details.has_effect = details.is_taken = false;
    details_[id] = std::move(details);
    return *details_[id];
  }
  const std::vector<InputUse> declared = node.op().input_uses(num_inputs, details.booleans);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    if (declared[i] == InputUse::host_boolean) details.booleans[i] = boolean_of(node.inputs()[i], node);
  }
  details.uses = node.op().input_uses(num_inputs, details.booleans);
  details.has_effect = !node.op().has_effect || node.op().has_effect(details.booleans);
  for (std::size_t i = 0; i < num_inputs; ++i) {
    const Value input = node.inputs()[i];
    if (details.uses[i] != InputUse::data) continue;
    if (std::find(details.reads.begin(), details.reads.end(), input) == details.reads.end())
      details.reads.push_back(input);
  }
  const std::size_t num_inputs_read = details.reads.size();
  for (std::size_t i = 0; i < num_inputs_read; ++i) {
    // What reads a variable that ranks hold in shards reads this rank's shard: it comes before the update of that.
    const Value shard = is_variable(details.reads[i]) ? shard_of(details.reads[i]) : Value();
    if (!shard.valid()) continue;
    if (std::find(details.reads.begin(), details.reads.end(), shard) == details.reads.end())
      details.reads.push_back(shard);
  }
  details_[id] = std::move(details);
  return *details_[id];
}

bool ConcreteGraph::is_identity(NodeId id) const {
  const Node& node = graph_->node(id);
  if (!node.op().is_identity || reads(id).empty() || is_variable(reads(id).front())) return false;
  if (!node.op().is_identity({input_types(id), types(id), booleans(id), node.any_options()})) return false;
  const TensorType& renamed = type(reads(id).front());
  SF_CHECK(renamed.bytes() == types(id)[0].bytes(), InternalError, node.label(), ": OpDef::is_identity says that ",
           types(id)[0].text(), " is its input ", renamed.text(), "; wanted as many bytes");
  return true;
}

std::vector<bool> ConcreteGraph::reached(const std::vector<Value>& values,
                                         const std::vector<Operation>& operations) const {
  std::vector<bool> reached(static_cast<std::size_t>(graph_->num_nodes()), false);
  std::vector<NodeId> pending;
  const auto add = [&](NodeId id) {
    if (reached[id]) return;
    reached[id] = true;
    pending.push_back(id);
  };
  for (const Value& value : values) add(value.node().id());
  for (const Operation& operation : operations) add(operation.node().id());
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (!is_taken(id)) continue;
    for (const Value& value : reads(id)) add(value.node().id());
    for (const Node* control : graph_->node(id).control_inputs()) add(control->id());
  }
  return reached;
}

std::vector<bool> ConcreteGraph::needed(const std::vector<Value>& values,
                                        const std::vector<Operation>& operations) const {
  for (const Value& value : values) {
    SF_CHECK_CODE(is_taken(value.node().id()), ArgumentError, ErrorCode::branch_value, "'", value.name(),
                  "' is asked for, which is computed only in a branch that is not taken",
                  Fact{"made", value.node().place()}, hint("ask for what cond gives"));
  }
  std::vector<bool> needed = reached(values, operations);
  check_fed(needed);
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    if (needed[id] && !has_effect(id)) needed[id] = false;
  }
  return needed;
}

void ConcreteGraph::check_fed(const std::vector<bool>& needed) const {
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    const Node& placeholder = graph_->node(id);
    if (!needed[id] || !placeholder.op().is_placeholder() || signature_->shapes.contains(id)) continue;
    const Node* reader = nullptr;
    for (NodeId other = 0; other < graph_->num_nodes() && reader == nullptr; ++other) {
      if (!needed[other] || other == id) continue;
      const auto& values = reads(other);
      const bool is_reader =
          std::any_of(values.begin(), values.end(), [&](const Value& value) { return &value.node() == &placeholder; });
      if (is_reader) reader = &graph_->node(other);
    }
    // What is fed although nothing reads it may be what was meant.
    std::vector<std::string> unread;
    for (const auto& [fed, shape] : signature_->shapes) {
      if (!needed[fed] && !signature_->decided.contains(fed)) unread.push_back(graph_->node(fed).name());
    }
    throw_missing_feed(placeholder, reader, unread);
  }
}

void ConcreteGraph::throw_missing_feed(const Node& placeholder, const Node* reader,
                                       const std::vector<std::string>& candidates) const {
  std::string fed;
  for (const auto& [id, shape] : signature_->shapes) {
    if (signature_->decided.contains(id)) continue;
    const Node& node = graph_->node(id);
    fed +=
        text_of(fed.empty() ? "'" : ", '", node.name(), "' ", TensorType{node.output_types()[0].dtype, shape}.text());
  }
  ArgumentError error(error_text_of("placeholder '", placeholder.name(), "' ", placeholder.output_types()[0].text(),
                                    " is not fed", Fact{"fed", fed.empty() ? "nothing" : fed}),
                      ErrorCode::missing_feed);
  if (reader != nullptr) {
    const std::string place = reader->place();
    error.add_fact("needed", text_of("by ", reader->label(), place.empty() ? "" : ", ", place));
  }
  const auto nearest = nearest_spelling(placeholder.name(), candidates);
  error.add_fact("hint", nearest ? text_of("'", *nearest, "' was fed; was '", placeholder.name(), "' meant?")
                                 : text_of("add {", placeholder.name(), ", ...} to the feeds"));
  throw error;
}

}  // namespace sectionflow

#include "transform/graph_copy.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/op_registry.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

/// From here on a constant has a place of its own in a session instead of being made wherever it is read.
constexpr std::size_t kStoredBytes = 1024;

/// A node that may be asked for outputs: values are handles to what may be changed.
Node& of_graph(const Node& node) {
  return node.graph().node(node.id());
}

bool is_constant(const Node& node) {
  return node.op().is_constant() ||
         (!node.output_types().empty() && constant_content(of_graph(node).output()) != nullptr);
}

/// Collections that mean nothing without training, and those that `finish` fills.
const std::set<std::string, std::less<>>& collections_of_training() {
  static const std::set<std::string, std::less<>> names = {std::string(kVariables),
                                                           std::string(kTrainableVariables),
                                                           std::string(kUpdateOperations),
                                                           std::string(kTrainingOperations),
                                                           std::string(kAccumulationOperations),
                                                           std::string(kMicroBatches),
                                                           std::string(kRanks),
                                                           std::string(kOutputs)};
  return names;
}

}  // namespace

GraphCopy::GraphCopy(const Graph& source)
    : source_(source),
      graph_(std::make_unique<Graph>()),
      nodes_(static_cast<std::size_t>(source.num_nodes()), nullptr),
      values_(nodes_.size()) {
  for (NodeId id = 0; id < source.num_nodes(); ++id) {
    names_.insert(source.node(id).name());
    values_[static_cast<std::size_t>(id)].resize(source.node(id).output_types().size());
  }
  for (GroupId group = 0; group < source.num_groups(); ++group) (void)graph_->new_group(source.group_name(group));
  for (const std::string& name : source.scope_names()) (void)graph_->scope(name);
}

GraphCopy::GraphCopy(const TransformedGraph& source) : GraphCopy(source.graph) {
  ranges_ = &source.ranges;
}

void GraphCopy::copy_all(const Rewrite& rewrite, const std::vector<bool>* kept) {
  std::vector<bool> is_read(nodes_.size(), false);
  for (NodeId id = 0; id < source_.num_nodes(); ++id) {
    for (const Value& input : source_.node(id).inputs()) is_read[static_cast<std::size_t>(input.node().id())] = true;
  }
  for (NodeId id : topological_order(DependencyGraph(source_))) {
    const auto index = static_cast<std::size_t>(id);
    if ((kept != nullptr && !(*kept)[index]) || nodes_[index] != nullptr) continue;
    const Node& node = source_.node(id);
    if (rewrite && rewrite(node, *this)) continue;
    if (node.op().movement != Movement::none && mapped(node.inputs()[0]).node().op().is_variable()) {
      // What has a place of its own is not swapped from run to run.
      map(of_graph(node).output(), mapped(node.inputs()[0]));
      continue;
    }
    if (!is_constant(node) || !is_read[index]) copy(node);
  }
}

Value GraphCopy::mapped(Value value) {
  const auto index = static_cast<std::size_t>(value.node().id());
  if (!values_[index][static_cast<std::size_t>(value.output())] && is_constant(value.node())) copy(value.node());
  const std::optional<Value>& found = values_[index][static_cast<std::size_t>(value.output())];
  SF_CHECK(found.has_value(), InternalError, "a graph is copied without '", value.name(), "', which is read");
  return *found;
}

void GraphCopy::map(Value before, Value after) {
  const auto index = static_cast<std::size_t>(before.node().id());
  values_[index][static_cast<std::size_t>(before.output())] = after;
  nodes_[index] = &after.node();
}

Node& GraphCopy::copy(const Node& node) {
  std::vector<Value> inputs;
  for (const Value& input : node.inputs()) inputs.push_back(mapped(input));
  const std::string_view op = is_stored(node) ? "stored_constant" : std::string_view(node.op().name);
  Node& added = add(node, op, std::move(inputs), node.any_options(), node.name());
  const auto index = static_cast<std::size_t>(node.id());
  nodes_[index] = &added;
  for (std::size_t i = 0; i < values_[index].size(); ++i) values_[index][i] = added.output(static_cast<int>(i));
  return added;
}

Node& GraphCopy::add(const Node& node, std::string_view op, std::vector<Value> inputs, std::any options,
                     const std::string& name) {
  Branch branch = node.branch();
  if (branch.exists()) branch.choice = nodes_[static_cast<std::size_t>(branch.choice->id())];
  const auto in_group = graph_->enter_group(node.group());
  const auto in_branch = graph_->enter_branch(branch);
  const auto in_phase = graph_->enter_phase(node.phase());
  return graph_->add_node(op, std::move(inputs), std::move(options), "/" + name, node.where());
}

Value GraphCopy::add_constant(const Node& node, std::shared_ptr<const HostTensor> content, const std::string& name) {
  const char* op = content->num_bytes() >= kStoredBytes ? "stored_constant" : "constant";
  return add(node, op, {}, ConstantOptions{std::move(content)}, name).output();
}

std::string GraphCopy::free_name(const std::string& name) const {
  std::string candidate = name;
  for (int number = 1;; ++number) {
    if (!names_.contains(candidate) && graph_->unique_name("/" + candidate) == candidate) return candidate;
    candidate = text_of(name, "_", number);
  }
}

void GraphCopy::add_edges() {
  for (NodeId id = 0; id < source_.num_nodes(); ++id) {
    const Node& node = source_.node(id);
    Node* const after = nodes_[static_cast<std::size_t>(id)];
    // What stands for a node and has another name was there before it, and waits for nothing of it.
    if (after == nullptr || after->name() != node.name()) continue;
    for (const Node* before : node.control_inputs()) {
      if (is_there(*before))
        graph_->add_control_edge(Operation(*nodes_[static_cast<std::size_t>(before->id())]), Operation(*after));
    }
    for (const Node* before : node.order_inputs()) {
      if (is_there(*before))
        graph_->add_order_edge(Operation(*nodes_[static_cast<std::size_t>(before->id())]), Operation(*after));
    }
  }
}

void GraphCopy::add_collections(const std::set<std::string, std::less<>>& left_out) {
  for (const CollectedItem& item : source_.collected_items()) {
    if (left_out.contains(item.collection) || collections_of_training().contains(item.collection)) continue;
    const auto in_group = graph_->enter_group(item.group);
    if (item.value.valid()) {
      const auto& value =
          values_[static_cast<std::size_t>(item.value.node().id())][static_cast<std::size_t>(item.value.output())];
      if (value) graph_->add_to_collection(item.collection, *value);
    } else if (is_there(item.operation.node())) {
      graph_->add_to_collection(item.collection,
                                Operation(*nodes_[static_cast<std::size_t>(item.operation.node().id())]));
    }
  }
}

ValueRanges GraphCopy::kept_ranges() const {
  ValueRanges kept;
  if (ranges_ == nullptr) return kept;
  for (const auto& [name, before] : values_of_ranges(source_, *ranges_, "GraphCopy")) {
    const auto& after =
        values_[static_cast<std::size_t>(before.node().id())][static_cast<std::size_t>(before.output())];
    // Where one value stands for several, the range is that of the one that has its name.
    if (after && (after->name() == name || !kept.of(*after))) kept.set(*after, *ranges_->of(name));
  }
  return kept;
}

InferenceGraph GraphCopy::finish(const std::vector<Value>& outputs,
                                 const std::set<std::string, std::less<>>& left_out) {
  InferenceGraph result;
  for (const Value& output : outputs) result.outputs.push_back(mapped(output));
  add_edges();
  add_collections(left_out);
  for (const Value& output : result.outputs) graph_->add_to_collection(kOutputs, output);
  result.ranges = kept_ranges();
  result.graph = std::move(graph_);
  return result;
}

std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& outputs) {
  std::vector<bool> needed(static_cast<std::size_t>(graph.num_nodes()), false);
  std::vector<const Node*> pending;
  const auto reach = [&](const Node& node) {
    if (needed[static_cast<std::size_t>(node.id())]) return;
    needed[static_cast<std::size_t>(node.id())] = true;
    pending.push_back(&node);
  };
  for (const Value& output : outputs) reach(output.node());
  while (!pending.empty()) {
    const Node& node = *pending.back();
    pending.pop_back();
    for (const Value& input : node.inputs()) reach(input.node());
    for (const Node* before : node.control_inputs()) reach(*before);
    if (node.branch().exists()) reach(*node.branch().choice);
  }
  return needed;
}

std::vector<std::vector<int>> reader_counts(const Graph& graph, const std::vector<Value>& outputs) {
  std::vector<std::vector<int>> counts;
  for (NodeId id = 0; id < graph.num_nodes(); ++id) counts.emplace_back(graph.node(id).output_types().size(), 0);
  const auto count = [&](const Value& value) {
    ++counts[static_cast<std::size_t>(value.node().id())][static_cast<std::size_t>(value.output())];
  };
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    for (const Value& input : graph.node(id).inputs()) count(input);
  }
  for (const Value& output : outputs) count(output);
  return counts;
}

void check_outputs(const Graph& graph, const std::vector<Value>& outputs, const char* call) {
  SF_CHECK(!outputs.empty(), ArgumentError, call, ": there are no outputs; wanted what the graph is to compute");
  for (const Value& output : outputs) {
    SF_CHECK(output.valid() && &output.graph() == &graph, ArgumentError, call, ": the output '",
             output.valid() ? output.name() : "", "' is none of the graph; wanted a value of it");
  }
}

std::vector<std::optional<bool>> known_booleans(const Node& node, const KnownBoolean& known) {
  std::vector<std::optional<bool>> booleans(node.inputs().size());
  if (!node.op().uses) return booleans;
  const std::vector<InputUse> uses = node.op().input_uses(booleans.size(), booleans);
  for (std::size_t i = 0; i < booleans.size(); ++i) {
    if (uses[i] == InputUse::host_boolean) booleans[i] = known(node.inputs()[i]);
  }
  return booleans;
}

std::optional<bool> constant_boolean(Value value) {
  const HostTensor* content = constant_content(value);
  if (content == nullptr || content->type() != TensorType{Dtype::boolean, {}}) return std::nullopt;
  return content->item<bool>();
}

void check_is_for_inference(const Node& node, const KnownBoolean& known, const char* call) {
  const OpDef& op = node.op();
  SF_CHECK(!op.is_update() || is_without_effect(node, known), ArgumentError, call, ": ", node.label(),
           " updates a variable, which inference does not", Fact{"where", node.place()},
           hint("ask for outputs that do not need it, or say that the run does not train"));
  SF_CHECK(!op.communicates, ArgumentError, call, ": ", node.label(), " exchanges with other ranks",
           Fact{"where", node.place()}, hint("ask for outputs that do not need it"));
  if (op.recompute != Recompute::seeded) return;
  std::vector<TensorType> inputs;
  for (const Value& input : node.inputs()) inputs.push_back(input.type());
  const std::vector<std::optional<bool>> booleans = known_booleans(node, known);
  const bool is_same = op.is_identity && op.is_identity({inputs, node.output_types(), booleans, node.any_options()});
  SF_CHECK(is_same, ArgumentError, call, ": ", node.label(), " draws random numbers, which are others in another graph",
           Fact{"where", node.place()},
           hint("feed them, or give its is_training among FreezeOptions::feeds, as {is_training, false}"));
}

bool is_without_effect(const Node& node, const KnownBoolean& known) {
  return node.op().has_effect && !node.op().has_effect(known_booleans(node, known));
}

void check_is_for_inference(const Graph& graph, const std::vector<bool>* nodes, const char* call) {
  const auto is_asked = [&](NodeId id) { return nodes == nullptr || (*nodes)[static_cast<std::size_t>(id)]; };
  // Before all else: what else a graph with variables has that is no inference, freeze takes away.
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = graph.node(id);
    SF_CHECK(!is_asked(id) || !is_session_variable(node), ArgumentError, call, ": the graph has the variable '",
             node.name(), "', whose values a session has", Fact{"where", node.place()}, hint("take what freeze gives"));
  }
  for (NodeId id = 0; id < graph.num_nodes(); ++id) {
    if (is_asked(id)) check_is_for_inference(graph.node(id), constant_boolean, call);
  }
}

bool is_session_variable(const Node& node) {
  return node.op().is_variable() && !is_constant(node);
}

bool is_stored(const Node& node) {
  if (node.output_types().empty()) return false;
  const HostTensor* content = constant_content(of_graph(node).output());
  return content != nullptr && (node.op().is_variable() || content->num_bytes() >= kStoredBytes);
}

bool is_op(const Node& node, const char* name) {
  return &node.op() == &op_registry().at(name);
}

}  // namespace sectionflow

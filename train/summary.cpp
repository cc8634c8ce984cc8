#include "train/summary.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/checked_arithmetic.h"
#include "base/error.h"
#include "graph/nodes/shards.h"
#include "graph/op_def.h"
#include "graph/ops/basic.h"
#include "graph/traversal.h"

namespace sectionflow {
namespace {

std::string scope_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

/// "1,234,567"
std::string grouped(std::int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// Reads a graph row by row.
class Summarizer {
 public:
  Summarizer(const Graph& graph, const SummaryOptions& options) : graph_(graph), options_(options) {
    types_.resize(static_cast<std::size_t>(graph.num_nodes()));
  }

  GraphSummary run() {
    check_options();
    find_initial_values();
    const std::vector<NodeId> order = topological_order(DependencyGraph(graph_));
    for (NodeId id : order) infer(graph_.node(id));
    std::vector<NodeId> shown;
    std::copy_if(order.begin(), order.end(), std::back_inserter(shown),
                 [&](NodeId id) { return is_shown(graph_.node(id)); });
    for (NodeId id : shown) {
      if (reads_variable(graph_.node(id))) layers_.insert(scope_of(graph_.node(id).name()));
    }
    layers_.erase("");
    find_results(order, shown);
    for (NodeId id : shown) add(graph_.node(id));
    add_totals();
    return std::move(summary_);
  }

 private:
  void check_options() {
    SF_CHECK(options_.batch >= 1, ArgumentError, "summary: batch is ", options_.batch, "; wanted 1 or more");
    for (const FeedType& type : options_.types) {
      SF_CHECK(type.value.valid() && &type.value.graph() == &graph_ && type.value.node().op().is_placeholder(),
               ArgumentError, "summary: a type is of '", type.value.valid() ? type.value.name() : "",
               "'; wanted a placeholder of the graph");
      if (type.boolean) continue;
      SF_CHECK(matches(type.shape, type.value.shape()), ShapeError, "summary: '", type.value.name(), "' has the shape ",
               type.shape, "; wanted ", type.value.type().text());
      fed_[type.value.node().id()] = type.shape;
    }
  }

  void find_initial_values() {
    initial_.assign(static_cast<std::size_t>(graph_.num_nodes()), false);
    std::vector<const Node*> waiting;
    const auto reach = [&](const Node& node) {
      if (initial_[static_cast<std::size_t>(node.id())]) return;
      initial_[static_cast<std::size_t>(node.id())] = true;
      waiting.push_back(&node);
    };
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      if (!node.op().is_variable() || constant_content(node.output()) != nullptr) continue;
      reach(initializer_of(node.output()).node());
      reach(initial_value_of(node.output()).node());
    }
    while (!waiting.empty()) {
      const Node& node = *waiting.back();
      waiting.pop_back();
      if (node.op().is_variable()) continue;
      for (const Value& input : node.inputs()) reach(input.node());
    }
  }

  static bool reads_variable(const Node& node) {
    return std::any_of(node.inputs().begin(), node.inputs().end(), [](Value value) { return is_variable(value); });
  }

  /// Swaps that Lms has put between the model's nodes belong to it.
  static bool is_forward(const Node& node) {
    const OpDef& op = node.op();
    if (op.movement != Movement::none) return true;
    return node.phase() == Phase::model && op.role == OpRole::computed && !op.is_update();
  }

  bool is_shown(const Node& node) const {
    const OpDef& op = node.op();
    return is_forward(node) && op.has_kernel && op.movement == Movement::none &&
           !initial_[static_cast<std::size_t>(node.id())];
  }

  /// Whether operations of the training, gradients and updates, depend on a node, by number; empty where there are
  /// none.
  std::vector<bool> trained_nodes(const std::vector<NodeId>& order) const {
    std::vector<bool> trained(static_cast<std::size_t>(graph_.num_nodes()), false);
    bool has_training = false;
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph_.node(*id);
      const bool is_training = node.phase() == Phase::training && node.op().has_kernel;
      has_training = has_training || is_training;
      if (!is_training && !trained[static_cast<std::size_t>(*id)]) continue;
      for (const Value& input : node.inputs()) trained[static_cast<std::size_t>(input.node().id())] = true;
    }
    return has_training ? trained : std::vector<bool>();
  }

  /// Results: values that no other operation reads, neither of the model nor of its training. What is computed for one
  /// alone, and is no layer, belongs to its row.
  void find_results(const std::vector<NodeId>& order, const std::vector<NodeId>& shown) {
    const std::vector<bool> trained = trained_nodes(order);
    result_of_.assign(static_cast<std::size_t>(graph_.num_nodes()), nullptr);
    if (trained.empty()) return;
    std::vector<std::vector<const Node*>> readers(static_cast<std::size_t>(graph_.num_nodes()));
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      const Node& node = graph_.node(*id);
      if (!is_forward(node) || initial_[static_cast<std::size_t>(*id)]) continue;
      for (const Value& input : node.inputs()) readers[static_cast<std::size_t>(input.node().id())].push_back(&node);
      const auto& own = readers[static_cast<std::size_t>(*id)];
      const bool is_beside = !trained[static_cast<std::size_t>(*id)] && !layers_.contains(scope_of(node.name())) &&
                             std::all_of(own.begin(), own.end(), [&](const Node* reader) { return result(*reader); });
      if (!is_beside) continue;
      result_of_[static_cast<std::size_t>(*id)] = !own.empty()     ? result(*own.front())
                                                  : is_shown(node) ? &node
                                                                   : nullptr;
    }
    // One has the name of the scope in which it was made, where nothing else was made there.
    for (NodeId id : shown) {
      const auto [first, is_new] =
          only_in_scope_.try_emplace(scope_of(graph_.node(id).name()), result(graph_.node(id)));
      if (!is_new && first->second != result(graph_.node(id))) first->second = nullptr;
    }
  }

  const Node* result(const Node& node) const { return result_of_[static_cast<std::size_t>(node.id())]; }

  std::vector<TensorType> inputs_of(const Node& node) const {
    std::vector<TensorType> inputs;
    for (const Value& input : node.inputs()) {
      inputs.push_back(types_[static_cast<std::size_t>(input.node().id())][static_cast<std::size_t>(input.output())]);
    }
    return inputs;
  }

  void infer(const Node& node) {
    std::vector<TensorType>& types = types_[static_cast<std::size_t>(node.id())];
    types = node.output_types();
    const OpDef& op = node.op();
    if (op.is_placeholder()) {
      std::vector<std::int64_t> dims = types[0].shape.dims();
      if (!dims.empty() && dims[0] == kDynamic) dims[0] = options_.batch;
      const auto fed = fed_.find(node.id());
      types[0].shape = fed != fed_.end() ? fed->second : Shape(std::move(dims));
    } else if (is_forward(node) && op.infer) {
      const std::vector<TensorType> inputs = inputs_of(node);
      const std::string label = node.label();
      types = op.infer({label, inputs, node.any_options()});
    }
  }

  bool is_identity(const Node& node) const {
    if (!node.op().is_identity) return false;
    const std::vector<TensorType> inputs = inputs_of(node);
    const std::vector<std::optional<bool>> unknown(inputs.size());
    return node.op().is_identity({.inputs = inputs,
                                  .outputs = types_[static_cast<std::size_t>(node.id())],
                                  .booleans = unknown,
                                  .options = node.any_options()});
  }

  SummaryRow& row_of(const Node& node) {
    const Node* const of_result = result(node);
    const Node& named = of_result != nullptr ? *of_result : node;
    const std::string scope = scope_of(named.name());
    const bool is_scope = of_result != nullptr ? only_in_scope_.at(scope) == of_result : layers_.contains(scope);
    const std::string layer = is_scope && !scope.empty() ? scope : named.name();
    // Two sections may build in one scope: a row is of one section.
    const auto [row, is_new] = rows_.try_emplace({layer, named.group()}, summary_.rows.size());
    if (is_new) {
      summary_.rows.emplace_back();
      summary_.rows.back().layer = layer;
      summary_.rows.back().is_result = of_result != nullptr;
      if (named.group() != kNoGroup) summary_.rows.back().section = graph_.group_name(named.group());
    }
    return summary_.rows[row->second];
  }

  void add(const Node& node) {
    SummaryRow& row = row_of(node);
    ++row.num_operations;
    const std::vector<TensorType>& outputs = types_[static_cast<std::size_t>(node.id())];
    for (const Value& input : node.inputs()) {
      if (!is_variable(input) || !counted_.insert(input.node().id()).second) continue;
      (is_trainable(input) ? row.parameters : row.other_variables) += input.shape().num_elements();
    }
    if (!outputs.empty()) {
      row.output = outputs[0];
      row.op.assign(node.op().name);
    }
    if (is_identity(node)) return;
    for (const TensorType& output : outputs) {
      if (output.shape.is_static()) {
        row.activation_bytes += output.bytes();
      } else {
        summary_.is_complete = false;
      }
    }
  }

  void add_totals() {
    for (const SummaryRow& row : summary_.rows) summary_.activation_bytes += row.activation_bytes;
    for (NodeId id = 0; id < graph_.num_nodes(); ++id) {
      Node& node = graph_.node(id);
      // What is held in shards counts as a whole, once.
      if (!node.op().is_variable() || variable_of_shard(node.output()).valid()) continue;
      const TensorType type = whole_type(node.output());
      (is_trainable(node.output()) ? summary_.parameters : summary_.other_variables) += type.shape.num_elements();
      summary_.variable_bytes += type.bytes();
    }
  }

  const Graph& graph_;
  const SummaryOptions& options_;
  std::map<NodeId, Shape> fed_;
  std::vector<bool> initial_;  // nodes of which first values of variables are made
  std::vector<std::vector<TensorType>> types_;
  std::set<std::string> layers_;                      // scopes
  std::vector<const Node*> result_of_;                // by number: the result for which alone a node is computed
  std::map<std::string, const Node*> only_in_scope_;  // the result that a scope is of; nullptr: of none alone
  std::map<std::pair<std::string, GroupId>, std::size_t> rows_;
  std::set<NodeId> counted_;  // variables
  GraphSummary summary_;
};

}  // namespace

GraphSummary summary(const Graph& graph, const SummaryOptions& options, Where where) {
  return call_at(where, [&] { return Summarizer(graph, options).run(); });
}

std::string GraphSummary::text() const {
  using Cells = std::array<std::string, 5>;
  std::vector<Cells> table = {{"layer", "output", "parameters", "activations", "section"}};
  for (const SummaryRow& row : rows) {
    std::string layer = row.layer;
    if (row.is_result && row.num_operations > 1) {
      layer += text_of(" (", row.num_operations, " operations)");
    } else if (!row.layer.ends_with(row.op)) {
      layer += " (" + row.op + ")";
    }
    table.push_back({layer, row.output.text(), row.parameters == 0 ? "" : grouped(row.parameters),
                     row.activation_bytes == 0 ? "" : bytes_text(row.activation_bytes), row.section});
  }
  std::array<std::size_t, 5> widths{};
  for (const Cells& cells : table) {
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text;
  for (const Cells& cells : table) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string gap(widths[i] - cells[i].size(), ' ');
      const bool is_number = i == 2 || i == 3;
      line += (i == 0 ? "" : "  ") + (is_number ? gap + cells[i] : cells[i] + gap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  text += text_of(grouped(parameters), " parameters, ", grouped(other_variables), " numbers in other variables; ",
                  bytes_text(variable_bytes), " of variables, ", bytes_text(activation_bytes), " of activations",
                  is_complete ? "" : ", without those whose shapes are not known", "\n");
  return text;
}

}  // namespace sectionflow

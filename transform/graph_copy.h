#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_tensor.h"
#include "graph/graph.h"
#include "transform/inference_graph.h"
#include "transform/transform.h"

namespace sectionflow {

/// A graph that is made of another, node by node, in an order in which each stands behind what it waits for. Nodes keep
/// their names, groups, branches and phases; constants come just before the first that reads them, and not at all where
/// only those read them that are left out. Ranges of values go to what stands for these.
class GraphCopy {
 public:
  /// Sees to a node of the source itself and returns true, or returns false: then it is copied.
  using Rewrite = std::function<bool(const Node& node, GraphCopy& copy)>;

  /// `source` must outlive this.
  explicit GraphCopy(const Graph& source);
  explicit GraphCopy(const TransformedGraph& source);

  /// Goes through all nodes, but those that are not among `kept` where that says which.
  void copy_all(const Rewrite& rewrite, const std::vector<bool>* kept = nullptr);

  Graph& graph() { return *graph_; }
  /// What stands for a value of the source; constants are copied for it. Throws: InternalError where nothing does.
  Value mapped(Value value);
  /// From here on `after`, of the copy, stands for `before`, of the source.
  void map(Value before, Value after);
  /// Copies a node as it is, with what stands for its inputs; a large constant becomes a "stored_constant".
  Node& copy(const Node& node);
  /// Makes a node in the place of `node`, with its group, phase and place; `name` as it is. Inputs are of the copy.
  Node& add(const Node& node, std::string_view op, std::vector<Value> inputs, std::any options,
            const std::string& name);
  /// A constant of the content; a large one is a "stored_constant".
  Value add_constant(const Node& node, std::shared_ptr<const HostTensor> content, const std::string& name);
  /// A name that neither graph has: `name`, or that with a number.
  std::string free_name(const std::string& name) const;

  /// Adds edges and collections, but for `left_out`, and hands the graph over. REQUIRES: nothing has been taken before.
  InferenceGraph finish(const std::vector<Value>& outputs, const std::set<std::string, std::less<>>& left_out = {});

 private:
  void add_edges();
  void add_collections(const std::set<std::string, std::less<>>& left_out);
  ValueRanges kept_ranges() const;
  bool is_there(const Node& node) const { return nodes_[static_cast<std::size_t>(node.id())] != nullptr; }

  const Graph& source_;
  const ValueRanges* ranges_ = nullptr;
  std::unique_ptr<Graph> graph_;
  std::set<std::string, std::less<>> names_;               // of the source
  std::vector<Node*> nodes_;                               // by number in the source: what stands for the node
  std::vector<std::vector<std::optional<Value>>> values_;  // by number and output
};

/// What `outputs` need, by number: inputs, control inputs, and the choices of branches. The same as Graph's runs but
/// for what feeds decide.
std::vector<bool> needed_nodes(const Graph& graph, const std::vector<Value>& outputs);
/// How many nodes read each output of each node, by number; an output of the graph counts as a reader.
std::vector<std::vector<int>> reader_counts(const Graph& graph, const std::vector<Value>& outputs);
/// Throws: ArgumentError, which `call` begins, where `outputs` are none, or of another graph.
void check_outputs(const Graph& graph, const std::vector<Value>& outputs, const char* call);
/// What is known of a boolean before a run.
using KnownBoolean = std::function<std::optional<bool>(Value)>;
/// That of a constant, and of nothing else.
std::optional<bool> constant_boolean(Value value);
/// What is known of a node's inputs that choose kernels, one entry an input.
std::vector<std::optional<bool>> known_booleans(const Node& node, const KnownBoolean& known);
/// Whether an update has no effect, as that of a moving average in evaluation.
bool is_without_effect(const Node& node, const KnownBoolean& known);
/// Throws: ArgumentError, which `call` begins, where a node updates a variable, exchanges with ranks, or draws random
/// numbers, as far as the booleans are known.
void check_is_for_inference(const Node& node, const KnownBoolean& known, const char* call);
/// The same of all nodes, or of those that `nodes` says, with what is constant; and for variables.
void check_is_for_inference(const Graph& graph, const std::vector<bool>* nodes, const char* call);
/// Whether a node is a variable whose value a session has, and no constant.
bool is_session_variable(const Node& node);
/// Whether it is, or in a copy becomes, a constant that has a place of its own in a session.
bool is_stored(const Node& node);
/// Whether a node is of the op of that name: for rewriting rules, each of which is of a few ops.
bool is_op(const Node& node, const char* name);

}  // namespace sectionflow

#pragma once

#include <vector>

#include "graph/op_def.h"
#include "swap/lms.h"

namespace sectionflow {

/// Numbers of nodes, ascending, each once.
using NodeSet = std::vector<NodeId>;

/// A graph as Lms sees it: who reads whom, the size and the role of each node. A picture of the time when it was taken.
class LmsGraph {
 public:
  /// Throws: ArgumentError (SF-E111) for scopes and types that match nothing.
  LmsGraph(const Graph& graph, const LmsOptions& options);

  const Graph& graph() const { return *graph_; }
  /// When it was taken: nodes that were added since have higher numbers.
  int num_nodes() const { return static_cast<int>(trainable_.size()); }

  // Edges: of data where bytes are read, of control where one node only waits for another.
  const NodeSet& fan_in(NodeId id) const { return fan_in_[at(id)]; }
  const NodeSet& fan_out(NodeId id) const { return fan_out_[at(id)]; }
  const NodeSet& control_in(NodeId id) const { return control_in_[at(id)]; }
  const NodeSet& control_out(NodeId id) const { return control_out_[at(id)]; }
  /// The nodes that read an output.
  const NodeSet& consumers(NodeId id, int output) const { return consumers_[at(id)][static_cast<std::size_t>(output)]; }
  /// Distinct readers of all nodes, whatever they read.
  int num_edges() const;

  /// Whether the node belongs to the mode, training or not, that the graph is edited for.
  bool is_valid(NodeId id) const { return valid_[at(id)]; }
  /// Everything but swaps computes on the device.
  bool is_gpu(NodeId id) const { return graph_->node(id).op().movement == Movement::none; }
  /// Variables and their updates, constants, placeholders, random numbers: neither source nor destination.
  bool is_built_in(NodeId id) const;
  bool may_be_source(NodeId id) const { return source_[at(id)]; }
  bool may_be_destination(NodeId id) const { return destination_[at(id)]; }
  bool is_trainable(NodeId id) const { return trainable_[at(id)]; }
  /// Whether the node updates a variable, or can only be executed after one that does. Nothing may be made to wait for
  /// it: an update waits for all readers of its variable.
  bool follows_update(NodeId id) const { return follows_update_[at(id)]; }

  /// Estimated bytes: an unknown first dimension counts as the batch size or 1, others as 1.
  std::size_t bytes(Value value) const;
  /// Everything that a node reads and writes. An update writes its variable.
  std::size_t op_bytes(NodeId id) const;
  std::size_t parameter_bytes() const;

 private:
  static std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }
  void connect();
  void find_inactive(bool is_training);
  void find_update_followers();
  std::vector<bool> matching(const std::set<std::string>& scopes, const std::set<std::string>& types,
                             const char* parameter) const;
  std::vector<bool> permitted(const std::set<std::string>& incl_scopes, const std::set<std::string>& incl_types,
                              const std::set<std::string>& excl_scopes, const std::set<std::string>& excl_types,
                              const char* side) const;

  const Graph* graph_;
  std::optional<std::int64_t> batch_size_;
  std::vector<NodeSet> fan_in_, fan_out_, control_in_, control_out_;
  std::vector<std::vector<NodeSet>> consumers_;  // by node and output
  std::vector<bool> valid_, source_, destination_, trainable_, follows_update_;
};

}  // namespace sectionflow

#pragma once

#include <optional>
#include <vector>

#include "base/export.h"
#include "graph/graph.h"
#include "graph/op_def.h"
#include "schedule/signature.h"

namespace SF_API sectionflow {

/// A graph under one feed signature: concrete types, and what each node really reads.
class ConcreteGraph {
 public:
  /// Both must outlive this.
  ConcreteGraph(const Graph& graph, const Signature& signature);

  const Graph& graph() const { return *graph_; }
  const Signature& signature() const { return *signature_; }

  /// Concrete output types. Throws: ShapeError when an unknown dimension stays unknown, and what shape rules throw.
  const std::vector<TensorType>& types(NodeId id) const;
  const TensorType& type(Value value) const {
    return types(value.node().id())[static_cast<std::size_t>(value.output())];
  }
  /// Known host booleans, one an input. Throws: ArgumentError for one that is neither fed nor constant.
  const std::vector<std::optional<bool>>& booleans(NodeId id) const { return details(id).booleans; }
  /// Concrete types of the inputs; of one that is not used under these booleans the type that is known without feeds,
  /// which may be missing.
  std::vector<TensorType> input_types(NodeId id) const;
  /// One use an input.
  const std::vector<InputUse>& uses(NodeId id) const { return details(id).uses; }
  /// Whether the node belongs to no branch (Branch) that these booleans leave out. One that does reads nothing, has no
  /// effect, and is not executed.
  bool is_taken(NodeId id) const { return details(id).is_taken; }
  /// Whether executing the node does anything: false for updates that these booleans switch off.
  bool has_effect(NodeId id) const { return details(id).has_effect; }
  /// Whether the node only gives the first value that it reads another name (OpDef::is_identity).
  bool is_identity(NodeId id) const;
  /// Values whose elements the node reads, in the order of its inputs, each once.
  const std::vector<Value>& reads(NodeId id) const { return details(id).reads; }

  /// Every node that must be executed or fed for `values` and `operations`, by number: data and control inputs.
  /// Throws: ArgumentError for a placeholder that is needed and not fed, and for values of a branch that is not taken.
  std::vector<bool> needed(const std::vector<Value>& values, const std::vector<Operation>& operations) const;
  /// The same without a look at the feeds, what has no effect included.
  std::vector<bool> reached(const std::vector<Value>& values, const std::vector<Operation>& operations) const;

 private:
  struct Details {
    std::vector<std::optional<bool>> booleans;
    std::vector<InputUse> uses;
    std::vector<Value> reads;
    bool has_effect = true;
    bool is_taken = true;
  };
  const Details& details(NodeId id) const;
  std::optional<bool> known_boolean(Value value) const;
  bool boolean_of(Value value, const Node& reader) const;
  bool is_branch_taken(Branch branch, const Node& reader) const;
  std::vector<InputUse> known_uses(const Node& node) const;
  void infer_types(NodeId id) const;
  void check_fed(const std::vector<bool>& needed) const;
  [[noreturn]] void throw_missing_feed(const Node& placeholder, const Node* reader,
                                       const std::vector<std::string>& candidates) const;

  const Graph* graph_;
  const Signature* signature_;
  mutable std::vector<std::optional<Details>> details_;                // filled on first use
  mutable std::vector<std::optional<std::vector<TensorType>>> types_;  // filled on first use
};

}  // namespace sectionflow

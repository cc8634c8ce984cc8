#pragma once

#include <any>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/export.h"
#include "graph/value.h"

namespace SF_API sectionflow {

struct OpDef;

/// A set of nodes that belong together (a section). kNoGroup stands outside of all.
using GroupId = std::int32_t;
inline constexpr GroupId kNoGroup = -1;

/// What a node is for: the model, or training it (gradients, optimisers). Random nodes are numbered apart in each, so
/// that adding training operations never shifts the random numbers of the model.
enum class Phase { model, training };

/// One side of a choice that cond (graph/ops/control.h) makes: its nodes are executed in programs in which the flag is
/// `when`, and in no other. As it stands: outside of all branches.
struct Branch {
  const Node* choice = nullptr;  ///< the operation that reads the flag; it stands in the branch around this one
  bool when = true;

  bool exists() const { return choice != nullptr; }
  /// The branch around this one. Throws: what comes of a branch that does not exist.
  Branch around() const;
  /// What decides whether it is taken: a boolean [] that is known on the host.
  Value flag() const;
  /// Whether all that is executed in this branch is so where `outer` is taken: it is that one, or within it.
  bool is_within(Branch outer) const;
  friend bool operator==(const Branch&, const Branch&) = default;
};

/// One operation of a graph with its inputs and options. Made by Graph::add_node; never changes but for control edges,
/// order edges, Graph::replace_input, and groups and branches that its graph sets.
class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  NodeId id() const { return id_; }
  /// Its number among all nodes that were ever made in its graph. Another than id(), it is not given again when the
  /// node is taken out (Graph::all_or_nothing).
  std::uint64_t serial() const { return serial_; }
  Graph& graph() const { return *graph_; }
  const OpDef& op() const { return *op_; }
  const std::string& name() const { return name_; }
  /// "conv2d 'block1/conv'", for messages.
  std::string label() const;
  GroupId group() const { return group_; }
  /// The branch in which it was made. What is given, and what variables have their initial values from, is in none.
  Branch branch() const { return branch_; }
  Phase phase() const { return phase_; }
  /// The line of the user's call that made it; not known for every node.
  Where where() const { return where_; }
  /// "section 3 'head', model.cpp:84": group and line as far as they are known, for messages.
  std::string place() const;

  const std::vector<Value>& inputs() const { return inputs_; }
  /// Nodes that must have been executed before, without giving data.
  const std::vector<Node*>& control_inputs() const { return control_inputs_; }
  /// Nodes that must have been executed before in runs that execute them; they are not brought along.
  const std::vector<Node*>& order_inputs() const { return order_inputs_; }
  const std::vector<TensorType>& output_types() const { return output_types_; }
  Value output(int index = 0) { return {*this, index}; }

  const std::any& any_options() const { return options_; }
  /// The options of the op's own type. Throws: InternalError for another.
  template <class Options>
  const Options& options() const {
    const auto* options = std::any_cast<Options>(&options_);
    if (options == nullptr) throw_other_options();
    return *options;
  }
  /// The address of a seeded node's random numbers; 0 for others.
  std::uint32_t random_ordinal() const { return random_ordinal_; }

 private:
  [[noreturn]] void throw_other_options() const;
  friend class Graph;
  Node() = default;

  Graph* graph_ = nullptr;
  NodeId id_ = 0;
  std::uint64_t serial_ = 0;
  const OpDef* op_ = nullptr;
  std::string name_;
  GroupId group_ = kNoGroup;
  Branch branch_{};
  Phase phase_ = Phase::model;
  Where where_{};
  std::vector<Value> inputs_;
  std::vector<Node*> control_inputs_, order_inputs_;
  std::vector<TensorType> output_types_;
  std::any options_;
  std::uint32_t random_ordinal_ = 0;
};

}  // namespace sectionflow

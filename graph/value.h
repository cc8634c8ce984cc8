#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {

class Graph;
class Node;

/// The number of a node in its graph: nodes are numbered in the order in which they are made.
using NodeId = std::int32_t;

/// One output of a node: what operations take and give. A cheap handle; the graph must outlive it.
class Value {
 public:
  /// A handle to nothing; `valid()` is false.
  Value() = default;
  Value(Node& node, int output) : node_(&node), output_(output) {}

  bool valid() const { return node_ != nullptr; }
  /// Throws: ArgumentError for a handle to nothing.
  Node& node() const;
  int output() const { return output_; }
  Graph& graph() const;
  /// Throws: ArgumentError where the node has no such output.
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
  Dtype dtype() const { return type().dtype; }
  /// The node's name, with ":k" for outputs after the first.
  std::string name() const;

  friend bool operator==(const Value&, const Value&) = default;

 private:
  Node* node_ = nullptr;
  int output_ = 0;
};

/// The order of creation: by node number, then output. Values of different graphs are never equivalent. `a < b` is
/// none: it compares what values hold (graph/ops/arithmetic.h).
bool is_before(const Value& a, const Value& b);

/// A node as something to execute, for its effect: an update of a variable, a group.
class Operation {
 public:
  Operation() = default;
  explicit Operation(Node& node) : node_(&node) {}
  /// The operation that computes a value.
  explicit Operation(Value value) : node_(&value.node()) {}

  bool valid() const { return node_ != nullptr; }
  /// Throws: ArgumentError for a handle to nothing.
  Node& node() const;
  const std::string& name() const;

  friend bool operator==(const Operation&, const Operation&) = default;

 private:
  Node* node_ = nullptr;
};

}  // namespace sectionflow

/// Values as keys of ordered containers: in the order of creation.
template <>
struct std::less<sectionflow::Value> {
  bool operator()(const sectionflow::Value& a, const sectionflow::Value& b) const {
    return sectionflow::is_before(a, b);
  }
};

/// Values as keys of unordered containers.
template <>
struct std::hash<sectionflow::Value> {
  std::size_t operator()(const sectionflow::Value& value) const noexcept {
    return value.valid() ? std::hash<const void*>()(&value.node()) * 31 + static_cast<std::size_t>(value.output()) : 0;
  }
};

#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/export.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What of the feeds decides a program: shapes, and booleans that may choose kernels.
struct Signature {
  std::map<NodeId, Shape> shapes;
  std::map<NodeId, bool> booleans;
  /// The training flag (Graph::training) where it has its shape and value from what the program executes, and not from
  /// a feed. Set where a program is compiled: what it is found by tells flags that are not fed from those that are.
  std::optional<NodeId> decided{};

  std::string text() const;
};

}  // namespace sectionflow

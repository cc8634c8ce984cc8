#pragma once

#include <map>
#include <set>
#include <string>

#include "base/export.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What of the feeds decides a program: shapes, and booleans that may choose kernels.
struct Signature {
  std::map<NodeId, Shape> shapes;
  std::map<NodeId, bool> booleans;
  /// Flags that nobody feeds. The training flag (Graph::training), which has its value from what the program executes:
  /// added where a program is compiled, since what it is found by tells a flag that is fed from one that is not. And
  /// whether a micro-batch is the last of an update (micro_batches.h).
  std::set<NodeId> decided{};
  /// Variables, shards at a server, of which another rank has all: f32[0] here. The same in all programs of a session,
  /// and so no part of the text.
  std::set<NodeId> elsewhere{};

  std::string text() const;
};

}  // namespace sectionflow

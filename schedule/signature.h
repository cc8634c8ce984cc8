#pragma once

#include <map>
#include <string>

#include "base/export.h"
#include "base/shape.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// What of the feeds decides a program: shapes, and booleans that may choose kernels.
struct Signature {
  std::map<NodeId, Shape> shapes;
  std::map<NodeId, bool> booleans;

  std::string text() const;
};

}  // namespace sectionflow

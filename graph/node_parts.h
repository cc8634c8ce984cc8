#pragma once

#include <cstdint>

#include "base/export.h"
#include "base/host_tensor.h"
#include "graph/op_def.h"

namespace SF_API sectionflow {

/// How a node runs in parts under known types.
struct NodeParts {
  RowParts uses{};
  std::int64_t rows = 0;  ///< of every input and output that has rows: in equal parts of multiples of uses.block

  std::int64_t most() const { return rows / uses.block; }
  bool may_be(std::int64_t parts) const { return parts > 1 && rows % parts == 0 && rows / parts % uses.block == 0; }
};

/// The type of one of so many equal parts. REQUIRES: a first dimension that they divide.
TensorType type_of_part(const TensorType& type, std::int64_t parts);

}  // namespace sectionflow

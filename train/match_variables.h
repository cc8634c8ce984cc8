#pragma once

#include <vector>

#include "base/host_tensor.h"
#include "graph/graph.h"
#include "train/checkpoint.h"
#include "train/variable_file.h"

namespace sectionflow {

/// A variable, and the tensor of the file that it is to be set to.
struct VariableMatch {
  Value variable;
  const HostTensor* tensor;
};

/// Which variables of the graph get which tensors by the options, and the names of all, as `report` lists them.
/// Throws: DataError (SF-E424) with the first differences; ArgumentError for patterns that fit nothing.
std::vector<VariableMatch> match_variables(const Graph& graph, const VariableFile& file, const LoadOptions& options,
                                           LoadReport& report);

}  // namespace sectionflow

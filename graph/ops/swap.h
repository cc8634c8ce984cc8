#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x, offloaded to the host: its bytes on the device are free once the copy and the other readers of x are done. Only
/// swap_in reads it. Shapes: any dtype; result like x. Throws: ArgumentError for a variable, which lives in the
/// session, and for what is offloaded already.
Value swap_out(Value x, std::string_view name = "swap_out", Where where = Where::here());

/// The offloaded value, on the device again. It may be copied back several times. The copy begins when the operations
/// that this one waits for are done; where it waits for nothing, just before its first reader.
/// Shapes: result like the input. Throws: ArgumentError for what is no result of swap_out.
Value swap_in(Value offloaded, std::string_view name = "swap_in", Where where = Where::here());

/// The swap nodes of a graph, in the order of their numbers.
std::vector<Operation> swap_nodes(const Graph& graph);

}  // namespace sectionflow

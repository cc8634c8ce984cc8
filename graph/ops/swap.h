#pragma once

#include "base/export.h"
#include "graph/graph.h"

namespace SF_API sectionflow {

/// x, resting on the host: its bytes on the device are free once the copy and the other readers of x are done. Only
/// swap_in reads it. Shapes: any dtype; result like x. Throws: ArgumentError for a variable, which lives in the
/// session, and for what rests on the host already.
Value swap_out(Value x, std::string_view name = "swap_out", Where where = Where::here());

/// The value that rests, on the device again. A rest may be brought back several times. The copy begins when the
/// operations that this one waits for are done; where it waits for nothing, just before its first reader.
/// Shapes: result like the rest. Throws: ArgumentError for what is no result of swap_out.
Value swap_in(Value rest, std::string_view name = "swap_in", Where where = Where::here());

/// The swap nodes of a graph, in the order of their numbers.
std::vector<Operation> swap_nodes(const Graph& graph);

}  // namespace sectionflow

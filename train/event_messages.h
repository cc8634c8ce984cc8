#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/trace.h"
#include "train/event.pb.h"

namespace sectionflow {

/// The graph as TensorBoard reads it, by event_names.
wire::GraphDef graph_message(const Graph& graph);

/// The operations of the last execution of a trace. Throws: ArgumentError (SF-E433), which `what` begins, for a trace
/// of another graph.
wire::RunMetadata run_message(const Trace& trace, const Graph& graph, const std::string& what);

/// The same bytes for the same message, maps included.
std::string message_bytes(const google::protobuf::MessageLite& message);

}  // namespace sectionflow

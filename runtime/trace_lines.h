#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/trace.h"

namespace sectionflow {

// A trace as Chrome trace event JSON, an event a line, of which files are put together.

/// The names of the process and of the lanes that have steps.
std::vector<std::string> trace_head_lines(const Trace& trace);
/// Steps, counters, flows and passes. `next_flow` numbers the flows of a file, and is counted on.
std::vector<std::string> trace_event_lines(const Trace& trace, const Graph& graph, std::int64_t& next_flow);

}  // namespace sectionflow

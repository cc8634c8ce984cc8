#pragma once

#include <functional>

#include "schedule/schedule.h"

namespace sectionflow {

/// The script with the lines that copy variables in which are at home in host memory, and back: copy_in and copy_out
/// lines of no rest. A variable stays on the device from one use to the next if that is near, in the same pass. It goes
/// home only if the stay has changed it: otherwise it is still there. Threads that copy get it a little early.
Script insert_variable_transfers(const Script& script, const ConcreteGraph& graph,
                                 const std::function<bool(NodeId)>& is_at_home, CopyCarrier carrier);

/// Whether a line copies a variable from its home or back.
bool is_variable_transfer(const ScriptLine& line);

}  // namespace sectionflow

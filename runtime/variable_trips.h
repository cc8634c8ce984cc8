#pragma once

#include <functional>
#include <vector>

#include "runtime/schedule.h"

namespace sectionflow {

/// A variable that is at home in host memory comes to the device before a line, or goes back home.
struct VariableTrip {
  NodeId variable = 0;
  int line = 0;  ///< before this line of the script
  bool comes = true;
};

/// The trips of all variables at home, in the order of the lines; what goes home before what comes. A variable stays on
/// the device from one use to the next if that is near, in the same pass. It goes home only if the stay has changed it:
/// otherwise it is still there. Threads that copy get it a little early.
std::vector<VariableTrip> variable_trips(const Script& script, const ConcreteGraph& graph,
                                         const std::function<bool(NodeId)>& is_at_home, CopyCarrier carrier);

}  // namespace sectionflow

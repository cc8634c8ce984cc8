#pragma once

#include <vector>

#include "device/device_spec.h"
#include "graph/graph.h"
#include "schedule/schedule.h"

namespace sectionflow {

/// The operations of a program, each once, in the order in which they are first executed.
std::vector<NodeId> executed_operations(const Schedule& schedule);

/// Of operations that are meant for other devices than the one that executes them: logs a line for each such device, or
/// throws DeviceError (SF-E500) where one is meant for its device alone, with the devices and kernels that there are.
void check_placement(const Graph& graph, const Schedule& schedule, const DeviceSpec& device);

}  // namespace sectionflow

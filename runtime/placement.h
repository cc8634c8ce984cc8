#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/export.h"
#include "device/device_spec.h"
#include "runtime/session.h"

namespace SF_API sectionflow {

/// "cpu:0", "cuda:1": the name by which DeviceScope means a device.
std::string device_name(const DeviceSpec& device);

/// Logs a line for each operation of the program that the session has compiled, planned or run last: which it is, where
/// it is executed, and for which device it is meant, if that is another. Throws: ArgumentError where there is no
/// program.
void log_placement(const Session& session, Where where = Where::here());
/// The same lines.
std::vector<std::string> placement_lines(const Session& session, Where where = Where::here());

}  // namespace sectionflow

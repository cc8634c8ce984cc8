#pragma once

#include <string>

#include "base/error.h"
#include "device/device.h"

namespace sectionflow {

/// The device that a command line names. `best` is the first GPU where one can be used. Throws: ArgumentError.
inline DeviceSpec device_named(const std::string& name) {
  if (name == "cpu") return cpu();
  if (name == "cuda") return cuda();
  if (name == "best") return best_device();
  throw ArgumentError(text_of("'", name, "' is no device; wanted cpu, cuda or best"));
}

/// What --help says of it.
inline constexpr const char* kDeviceHelp = "cpu, cuda (the first GPU) or best (a GPU where there is one)";

}  // namespace sectionflow

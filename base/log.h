#pragma once

#include "base/export.h"

namespace SF_API sectionflow {

/// Starts glog with lines on stderr, once per process; later calls do nothing. A program that has set glog up itself
/// need not call it.
void start_logging(const char* program_name);

}  // namespace sectionflow

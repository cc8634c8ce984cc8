#pragma once

#include <string>

#include "schedule/program.h"
#include "schedule/report.h"

namespace sectionflow {

/// Fills in what advice needs to know: the operation whose own operands are the most, and the largest tensor of the
/// host's tier.
void report_largest(const Program& program, const ConcreteGraph& graph, ProgramReport& report);

/// What to do where device memory is too small: it never advises what cannot help.
std::string device_advice(const ProgramReport& report);
/// What to do where host memory is too small.
std::string host_advice(const ProgramReport& report);
/// What to do where the disk is too small.
std::string disk_advice(const ProgramReport& report);

}  // namespace sectionflow

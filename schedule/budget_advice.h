#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "schedule/planning_tools.h"
#include "schedule/program.h"
#include "schedule/report.h"

namespace sectionflow {

/// The most device memory that the operands and scratch of one operation take, variables not counted. No list of the
/// same operations needs less, whatever is computed again or offloaded. `kernels` are those of the draft's tools.
std::size_t largest_operand_bytes(const Draft& draft, const std::vector<std::unique_ptr<Kernel>>& kernels);

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

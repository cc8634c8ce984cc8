#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "schedule/planning_tools.h"
#include "schedule/program.h"
#include "schedule/report.h"

namespace sectionflow {

/// The operation, or part of one, whose operands and scratch take the most device memory, variables not counted. No
/// list of the same operations in the same parts needs less, whatever is computed again or offloaded. `kernels` are
/// those of the draft's tools.
LiveTensor largest_operation(const Draft& draft, const std::vector<std::unique_ptr<Kernel>>& kernels,
                             const Graph& graph);

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

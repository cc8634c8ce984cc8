#pragma once

#include <string>
#include <vector>

#include "bench/ops/measure_case.h"

namespace sectionflow::bench {

/// What was measured, for people: the machine and its peaks, and a row a kernel.
std::string report_text(const std::vector<CaseResult>& results, const MeasureOptions& options);
/// The same for programs, as JSON with all digits.
std::string report_json(const std::vector<CaseResult>& results, const MeasureOptions& options);
/// The operations that can be timed, with their shapes and settings.
std::string list_text();

}  // namespace sectionflow::bench

#pragma once

#include <string>
#include <vector>

#include "op_case/case_device.h"
#include "op_case/op_case.h"

namespace sectionflow::op_cases {

/// failures_of (op_case/op_case.h) on a device that is made in another way.
std::vector<std::string> failures_on(const OpCase& op_case, const CaseDevice& device);

}  // namespace sectionflow::op_cases

#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "op_case/op_case.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/tolerance.h"

namespace sectionflow::op_cases {

inline std::ostream& operator<<(std::ostream& stream, const OpCase& op_case) {
  return stream << op_case.name;
}

}  // namespace sectionflow::op_cases

namespace sectionflow::testing_support {

using op_cases::boolean_input;
using op_cases::CaseInput;
using op_cases::Doubles;
using op_cases::in_bf16;
using op_cases::input;
using op_cases::OpCase;
using op_cases::parameter;

/// Expects of an op case what op_cases::failures_of checks, on the test device.
void check(const OpCase& op_case);

/// For INSTANTIATE_TEST_SUITE_P.
inline std::string case_name(const testing::TestParamInfo<OpCase>& info) {
  return info.param.name;
}

}  // namespace sectionflow::testing_support

#pragma once

#include <gtest/gtest.h>

#include <span>

#include "op_case/tolerance.h"

namespace sectionflow::testing_support {

using op_cases::doubles_of;
using op_cases::kF32Epsilon;
using op_cases::Tolerance;

/// Success where `difference` is empty; else a failure of that text.
inline testing::AssertionResult no_difference(const std::string& difference) {
  return difference.empty() ? testing::AssertionSuccess() : testing::AssertionFailure() << difference;
}
/// Whether `got` is `wanted` within `tolerance`; the text names the worst element.
inline testing::AssertionResult is_near(const HostTensor& got, std::span<const double> wanted, Tolerance tolerance) {
  return no_difference(op_cases::difference_of(got, wanted, tolerance));
}
/// Whether two tensors have the same type and bytes; the text names the first element that differs.
inline testing::AssertionResult same_bits(const HostTensor& a, const HostTensor& b) {
  return no_difference(op_cases::bit_difference_of(a, b));
}

}  // namespace sectionflow::testing_support

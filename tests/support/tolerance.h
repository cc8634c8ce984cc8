#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "base/host_tensor.h"

namespace sectionflow::testing_support {

/// How far an f32 result may lie from a reference in double, in units of f32's epsilon (2^-23):
///   |got - wanted| <= epsilon * (relative * |wanted| + absolute).
/// One rounded operation errs by 0.5 relative. A sum of K terms of magnitude m errs by about sqrt(K) m and may itself
/// be near 0: `absolute` says so. Two NaN are equal, and so are two infinities of one sign; a reference beyond f32's
/// range wants an infinity. Integers and booleans must be exact.
struct Tolerance {
  double relative = 4;
  double absolute = 4;
};

inline constexpr double kF32Epsilon = 0x1p-23;

/// The elements of a tensor of any dtype.
std::vector<double> doubles_of(const HostTensor& tensor);

/// Whether `got` is `wanted` within `tolerance`; the text names the worst element.
testing::AssertionResult is_near(const HostTensor& got, std::span<const double> wanted, Tolerance tolerance);

/// Whether two tensors have the same type and bytes; the text names the first element that differs.
testing::AssertionResult same_bits(const HostTensor& a, const HostTensor& b);

}  // namespace sectionflow::testing_support

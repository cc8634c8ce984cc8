#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/export.h"
#include "base/host_tensor.h"

namespace SF_API sectionflow {
namespace op_cases {

/// How far an f32 result may lie from a reference in double, in units of f32's epsilon (2^-23):
///   |got - wanted| <= epsilon * (relative * |wanted| + absolute).
/// One rounded operation errs by 0.5 relative. A sum of K terms of magnitude m errs by about sqrt(K) m and may itself
/// be near 0: `absolute` says so. Two NaN are equal, and so are two infinities of one sign; a reference beyond f32's
/// range wants an infinity. Integers and booleans must be exact.
struct Tolerance {
  double relative = 4;
  double absolute = 4;
};

/// The epsilon of f32.
inline constexpr double kF32Epsilon = 0x1p-23;

/// The elements of a tensor of any dtype.
std::vector<double> doubles_of(const HostTensor& tensor);

/// In which element `got` differs most from `wanted`, where it is not that within `tolerance`; empty where it is.
std::string difference_of(const HostTensor& got, std::span<const double> wanted, Tolerance tolerance);

/// In what two tensors differ first, type or element; empty where they have the same type and bytes.
std::string bit_difference_of(const HostTensor& a, const HostTensor& b);

}  // namespace op_cases
}  // namespace sectionflow

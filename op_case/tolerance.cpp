#include "op_case/tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace sectionflow::op_cases {
namespace {

template <class T>
std::vector<double> converted(const HostTensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

/// The error as a multiple of what is allowed: at most 1 is near.
double excess(double got, double wanted, Tolerance tolerance, bool is_exact) {
  if (std::isnan(got) || std::isnan(wanted)) return std::isnan(got) && std::isnan(wanted) ? 0 : INFINITY;
  if (!is_exact && std::abs(wanted) > std::numeric_limits<float>::max()) wanted = std::copysign(INFINITY, wanted);
  if (got == wanted) return 0;
  if (is_exact || std::isinf(got) || std::isinf(wanted)) return INFINITY;
  return std::abs(got - wanted) / (kF32Epsilon * (tolerance.relative * std::abs(wanted) + tolerance.absolute));
}

}  // namespace

std::vector<double> doubles_of(const HostTensor& tensor) {
  switch (tensor.dtype()) {
    case Dtype::f32:
      return converted<float>(tensor);
    case Dtype::f64:
      return converted<double>(tensor);
    case Dtype::i32:
      return converted<std::int32_t>(tensor);
    case Dtype::i64:
      return converted<std::int64_t>(tensor);
    case Dtype::i8:
      return converted<std::int8_t>(tensor);
    case Dtype::u8:
      return converted<std::uint8_t>(tensor);
    case Dtype::boolean:
      return converted<bool>(tensor);
    case Dtype::bf16:
      return converted<BFloat16>(tensor);
  }
  return {};
}

std::string difference_of(const HostTensor& got, std::span<const double> wanted, Tolerance tolerance) {
  const std::vector<double> values = doubles_of(got);
  if (values.size() != wanted.size()) {
    return text_of(got.type().text(), " got, ", wanted.size(), " elements wanted");
  }
  double worst = 0;
  std::size_t where = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double found = excess(values[i], wanted[i], tolerance, !is_floating(got.dtype()));
    if (!(found <= worst)) {
      worst = found;
      where = i;
    }
  }
  if (worst <= 1) return {};
  return text_of(got.type().text(), " differs most at element ", where, ": got ", values[where], ", wanted ",
                 wanted[where], ", ", worst, " times the tolerance");
}

std::string bit_difference_of(const HostTensor& a, const HostTensor& b) {
  if (!(a.type() == b.type())) {
    return text_of(a.type().text(), " against ", b.type().text());
  }
  if (bitwise_equal(a, b)) return {};
  const std::size_t width = dtype_bytes(a.dtype());
  std::size_t first = 0;
  while (std::memcmp(a.bytes() + first * width, b.bytes() + first * width, width) == 0) ++first;
  return text_of(a.type().text(), " differs at element ", first, ": ", doubles_of(a)[first], " against ",
                 doubles_of(b)[first]);
}

}  // namespace sectionflow::op_cases

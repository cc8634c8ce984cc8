#pragma once

#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "base/shape.h"
#include "graph/nodes/scan.h"
#include "kernels/convert_element.h"
#include "kernels/stored_element.h"

/// Running sums, shared by every device.
namespace sectionflow::formulas {

/// What elements stored as T are summed in: floats in f32, whole numbers without sign, so that they wrap around.
template <class T>
using RunningSum =
    typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<float>>::type;

template <class T>
SF_HOST_DEVICE T stored_sum(RunningSum<T> sum) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(sum);
  } else {
    return stored<T>(sum);
  }
}

/// `visit(T{})` for the dtypes that cumsum takes.
template <class Visit>
auto with_summed_type(Dtype dtype, const Visit& visit) {
  if (dtype == Dtype::i32) return visit(std::int32_t{});
  if (dtype == Dtype::i64) return visit(std::int64_t{});
  return with_stored_type(dtype, visit);
}

/// A tensor seen as lines along one axis, [outer, length, inner], and how sums go along them.
struct ScanLines {
  ScanLines(const Shape& shape, const CumsumNodeOptions& options) : sums(options.sums) {
    const int axis = normalized_axis(options.axis, shape.rank(), "cumsum");
    for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : i == axis ? length : inner) *= shape[i];
  }

  /// The place along the axis to which a sum comes as the `step`-th.
  SF_HOST_DEVICE std::int64_t place(std::int64_t step) const { return sums.reverse ? length - 1 - step : step; }

  std::int64_t outer = 1, length = 1, inner = 1;
  CumsumOptions sums;
};

}  // namespace sectionflow::formulas

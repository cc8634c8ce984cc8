#include "kernels/strides.h"

namespace sectionflow {

std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& out) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(out.rank()), 0);
  std::int64_t stride = 1;
  for (int i = 1; i <= operand.rank(); ++i) {
    const std::int64_t dim = operand[-i];
    if (dim != 1) strides[out.rank() - i] = stride;
    stride *= dim;
  }
  return strides;
}

std::vector<std::int64_t> kept_strides(const Shape& x, const std::vector<bool>& reduced) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(x.rank()), 0);
  std::int64_t stride = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    if (reduced[i]) continue;
    strides[i] = stride;
    stride *= x[i];
  }
  return strides;
}

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/tensor_view.h"
#include "kernels/kernel.h"

namespace sectionflow {

/// Elements of 16 bytes, for moving alone.
struct Bytes16 {
  std::uint64_t low, high;
};

/// `visit(T{})` for a type of `num_bytes` that is moved without being looked at.
template <class Visit>
decltype(auto) with_element_of(std::size_t num_bytes, Visit&& visit) {
  switch (num_bytes) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    case 4:
      return visit(std::uint32_t{});
    case 8:
      return visit(std::uint64_t{});
    case 16:
      return visit(Bytes16{});
    default:
      throw InternalError(text_of("with_element_of: no element of ", num_bytes, " bytes"));
  }
}

/// The step, in elements, for each dimension of a dense tensor.
std::vector<std::int64_t> dense_strides(const Shape& shape);

/// A tensor of the shape `y` read out of another: element (i, j, ...) is element first + i strides[0] + j strides[1] +
/// ... of x, which has `num_x_elements` elements of `element_bytes`.
struct StridedCopy {
  std::size_t element_bytes = 0;
  Shape y{};
  std::vector<std::int64_t> strides{};
  std::int64_t first = 0;
  std::int64_t num_x_elements = 0;
};

/// The kernel that computes output 0 from input 0 so; in place where that changes nothing.
std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy);

}  // namespace sectionflow

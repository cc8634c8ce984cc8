#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/cuda/divisor.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/merged_axes.h"
#include "kernels/strided_copy.h"

namespace sectionflow::gpu {

/// y[i] = x[the offset of i], a thread an element.
template <class T>
struct StridedRead {
  T* y;
  const T* x;
  int rank;
  Divisor dims[Shape::kMaxRank];
  std::int64_t strides[Shape::kMaxRank];

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, offset = 0;
    for (int axis = rank - 1; axis > 0; --axis) offset += dims[axis].cut(rest) * strides[axis];
    y[i] = x[offset + rest * strides[0]];
  }
};

/// Whether all of some numbers of elements are whole multiples of `factor`.
inline bool are_multiples(const MergedAxes<1>& axes, std::int64_t first, std::int64_t factor) {
  bool all = axes.last().strides[0] == 1 && axes.last().dim % factor == 0 && first % factor == 0;
  for (int i = 0; i + 1 < axes.rank; ++i) all = all && axes.axes[i].strides[0] % factor == 0;
  return all;
}

/// The kernel that computes output 0 from input 0 so; in place where that changes nothing. Rows that stay together are
/// moved in elements of up to 16 bytes.
inline std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy) {
  if (copy.changes_nothing()) {
    return copy_kernel(static_cast<std::size_t>(copy.y.num_elements()) * copy.element_bytes);
  }
  MergedAxes<1> axes(copy.y, {copy.strides});
  std::size_t element_bytes = copy.element_bytes;
  std::int64_t first = copy.first;
  while (element_bytes < 16 && are_multiples(axes, first, 2)) {
    element_bytes *= 2;
    first /= 2;
    axes.num_elements /= 2;
    axes.axes[axes.rank - 1].dim /= 2;
    for (int i = 0; i + 1 < axes.rank; ++i) axes.axes[i].strides[0] /= 2;
  }
  return with_element_of(element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    StridedRead<T> body{nullptr, nullptr, axes.rank, {}, {}};
    for (int i = 0; i < axes.rank; ++i) {
      body.dims[i] = Divisor(axes.axes[i].dim);
      body.strides[i] = axes.axes[i].strides[0];
    }
    return function_kernel([body, first, count = axes.num_elements](const KernelArguments& arguments) {
      StridedRead<T> placed = body;
      placed.y = static_cast<T*>(arguments.outputs[0]);
      placed.x = static_cast<const T*>(arguments.inputs[0]) + first;
      launch_each(arguments.queue, count, placed);
    });
  });
}

}  // namespace sectionflow::gpu

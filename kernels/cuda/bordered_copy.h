#pragma once

#include <cstdint>
#include <memory>

#include "kernels/bordered_copy.h"
#include "kernels/convert_element.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/elementwise.h"

namespace sectionflow::gpu {

/// y[i] = x's element at the same place of its box, or `value`: a thread an element of y.
template <class T>
struct BorderedWrite {
  T* y;
  const T* x;
  T value;
  BorderedAxes axes;
  Divisor dims[Shape::kMaxRank];

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, offset = 0, step = 1;
    bool is_inside = true;
    for (int axis = axes.rank - 1; axis >= 0; --axis) {
      const std::int64_t at = (axis > 0 ? dims[axis].cut(rest) : rest) - axes.axes[axis].before;
      is_inside = is_inside && at >= 0 && at < axes.axes[axis].x_dim;
      offset += at * step;
      step *= axes.axes[axis].x_dim;
    }
    y[i] = is_inside ? x[offset] : value;
  }
};

/// The kernel that computes output 0 from input 0 so; in place where x is all of y.
inline std::unique_ptr<Kernel> bordered_copy_kernel(const BorderedCopy& copy) {
  if (copy.x == copy.y.shape) return copy_kernel(copy.y.bytes());
  return with_element_type(copy.y.dtype, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    BorderedWrite<T> body{nullptr, nullptr, convert_element<T>(copy.value), BorderedAxes(copy), {}};
    for (int i = 0; i < body.axes.rank; ++i) body.dims[i] = Divisor(body.axes.axes[i].y_dim);
    return function_kernel([body, count = copy.y.shape.num_elements()](const KernelArguments& arguments) {
      BorderedWrite<T> placed = body;
      placed.y = static_cast<T*>(arguments.outputs[0]);
      placed.x = static_cast<const T*>(arguments.inputs[0]);
      launch_each(arguments.queue, count, placed);
    });
  });
}

}  // namespace sectionflow::gpu

#include "kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/broadcast_loop.h"
#include "kernels/cpu/copy_kernel.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class T>
void copy_row(T* y, const T* x, std::int64_t count, std::int64_t step) {
  if (step == 1) {
    std::memcpy(y, x, static_cast<std::size_t>(count) * sizeof(T));
  } else if (step == 0) {
    std::fill(y, y + count, *x);
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i * step];
  }
}

}  // namespace

std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy) {
  if (copy.changes_nothing()) {
    return copy_kernel(static_cast<std::size_t>(copy.y.num_elements()) * copy.element_bytes);
  }
  const BroadcastLoop<1> loop(copy.y, {copy.strides});
  return with_element_of(copy.element_bytes, [&](auto element) -> std::unique_ptr<Kernel> {
    using T = decltype(element);
    return function_kernel([loop, first = copy.first](const KernelArguments& arguments) {
      const T* x = static_cast<const T*>(arguments.inputs[0]) + first;
      T* y = static_cast<T*>(arguments.outputs[0]);
      loop.for_each_row([&](std::int64_t begin, std::int64_t count, const std::array<std::int64_t, 1>& offsets) {
        copy_row(y + begin, x + offsets[0], count, loop.step_in_row(0));
      });
    });
  });
}

}  // namespace sectionflow

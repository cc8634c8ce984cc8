#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/function_kernel.h"

namespace sectionflow::gpu {

/// y[i] = function(x[i]).
template <class Y, class X, class Function>
struct MapOne {
  Y* y;
  const X* x;
  Function function;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = function(x[i]); }
};
/// y[i] = function(a[i], b[i]).
template <class Y, class A, class B, class Function>
struct MapTwo {
  Y* y;
  const A* a;
  const B* b;
  Function function;
  SF_HOST_DEVICE void operator()(std::int64_t i) const { y[i] = function(a[i], b[i]); }
};

/// y[i] = function(x[i]...) for f32 tensors of one shape, one x an input, of which there may be one or two; y may lie
/// over any of them.
template <class Function>
std::unique_ptr<Kernel> map_kernel(const KernelRequest& request, Function function) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  if constexpr (std::is_invocable_v<Function, float>) {
    return function_kernel(
        [=](const KernelArguments& arguments) {
          launch_each(arguments.queue, count,
                      MapOne<float, float, Function>{static_cast<float*>(arguments.outputs[0]),
                                                     static_cast<const float*>(arguments.inputs[0]), function});
        },
        {.in_place = {{0, 0}}});
  } else {
    return function_kernel(
        [=](const KernelArguments& arguments) {
          launch_each(arguments.queue, count,
                      MapTwo<float, float, float, Function>{static_cast<float*>(arguments.outputs[0]),
                                                            static_cast<const float*>(arguments.inputs[0]),
                                                            static_cast<const float*>(arguments.inputs[1]), function});
        },
        {.in_place = {{0, 0}, {1, 0}}});
  }
}

/// The kernel whose output 0 is input 0, of `num_bytes`; nothing to do in place.
inline std::unique_ptr<Kernel> copy_kernel(std::size_t num_bytes) {
  return function_kernel(
      [num_bytes](const KernelArguments& arguments) {
        copy_bytes(arguments.queue, arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace sectionflow::gpu

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/convert_element.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/launch.h"
#include "kernels/function_kernel.h"

namespace sectionflow::gpu {

/// y[j] = function(x[j]...) for tensors of one shape with element types X..., a pack of neighbours a thread. y may lie
/// over any x of its type.
template <class Function, class Y, class Indices, class... X>
struct FlatMap;
template <class Function, class Y, std::size_t... k, class... X>
struct FlatMap<Function, Y, std::index_sequence<k...>, X...> {
  static constexpr int kWidth = pack_width<Y, X...>();
  Y* y;
  std::array<const void*, sizeof...(X)> x;
  std::int64_t count;
  Function function;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * kWidth;
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) y[j] = function(static_cast<const X*>(x.data()[k])[j]...);
      return;
    }
    store_pack(y + first, of_packs(load_pack<kWidth>(static_cast<const X*>(x.data()[k]) + first)...));
  }
  SF_HOST_DEVICE Pack<Y, kWidth> of_packs(const Pack<X, kWidth>&... packs) const {
    Pack<Y, kWidth> result;
    for (int lane = 0; lane < kWidth; ++lane) result.values[lane] = function(packs.values[lane]...);
    return result;
  }
};

/// Computes `count` elements y[j] = function(x[j]...).
template <class Y, class... X, class Function>
void launch_map(void* queue, std::int64_t count, Function function, void* y,
                const std::array<const void*, sizeof...(X)>& x) {
  using Body = FlatMap<Function, Y, std::index_sequence_for<X...>, X...>;
  launch_each(queue, blocks_for(count, Body::kWidth), Body{static_cast<Y*>(y), x, count, function});
}

/// y[i] = function(x[i]...), a function of floats, for `count` elements stored as T, one x an input, of which there may
/// be one or two; y may lie over any of them.
template <class T, class Function>
std::unique_ptr<Kernel> map_kernel_of(std::int64_t count, const Function& floats) {
  const OfStored<T, Function> function{floats};
  if constexpr (std::is_invocable_v<Function, float>) {
    return function_kernel(
        [=](const KernelArguments& arguments) {
          launch_map<T, T>(arguments.queue, count, function, arguments.outputs[0], {arguments.inputs[0]});
        },
        {.in_place = {{0, 0}}});
  } else {
    return function_kernel(
        [=](const KernelArguments& arguments) {
          launch_map<T, T, T>(arguments.queue, count, function, arguments.outputs[0],
                              {arguments.inputs[0], arguments.inputs[1]});
        },
        {.in_place = {{0, 0}, {1, 0}}});
  }
}

/// The same for tensors of one type, f32 or bf16.
template <class Function>
std::unique_ptr<Kernel> map_kernel(const KernelRequest& request, const Function& function) {
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return with_stored_type(request.outputs[0].dtype,
                          [&](auto element) { return map_kernel_of<decltype(element)>(count, function); });
}

template <class To, class From>
struct ConvertElement {
  SF_HOST_DEVICE To operator()(From x) const { return convert_element<To>(x); }
};

/// Computes `count` elements y[j] = convert_element<To>(x[j]).
template <class From, class To>
void launch_conversion(void* queue, std::int64_t count, const void* from, void* to) {
  launch_map<To, From>(queue, count, ConvertElement<To, From>(), to, {from});
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

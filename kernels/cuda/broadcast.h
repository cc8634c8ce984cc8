#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/positions.h"
#include "kernels/strides.h"

namespace sectionflow::gpu {

/// y[j] = function(x...) where operand k's element is found at the offset of j; kWidth neighbours a thread. With a
/// width above 1 the last axis, along which an operand has the step 0 or 1, is a multiple of it, or the only one.
template <class Function, int kWidth, class Y, class Indices, class... X>
struct BroadcastMap;
template <class Function, int kWidth, class Y, std::size_t... k, class... X>
struct BroadcastMap<Function, kWidth, Y, std::index_sequence<k...>, X...> {
  static constexpr int kOperands = sizeof...(X);
  Y* y;
  std::array<const void*, kOperands> x;
  Positions<kOperands> positions;
  std::int64_t count;
  Function function;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t first = i * kWidth;
    std::int64_t offsets[kOperands];
    positions.offsets_of(first, offsets);
    if constexpr (kWidth == 1) {
      y[first] = function(static_cast<const X*>(x.data()[k])[offsets[k]]...);
    } else if (first + kWidth <= count) {
      store_pack(y + first, of_packs(load<X>(k, offsets[k])...));
    } else {
      for (std::int64_t j = 0; first + j < count; ++j) {
        y[first + j] = function(static_cast<const X*>(x.data()[k])[offsets[k] + j * step(k)]...);
      }
    }
  }
  SF_HOST_DEVICE std::int64_t step(std::size_t operand) const { return positions.strides[positions.rank - 1][operand]; }
  template <class T>
  SF_HOST_DEVICE Pack<T, kWidth> load(std::size_t operand, std::int64_t offset) const {
    const T* place = static_cast<const T*>(x.data()[operand]) + offset;
    if (step(operand) != 0) return load_pack<kWidth>(place);
    Pack<T, kWidth> repeated;
    const T element = *place;
    for (int lane = 0; lane < kWidth; ++lane) repeated.values[lane] = element;
    return repeated;
  }
  SF_HOST_DEVICE Pack<Y, kWidth> of_packs(const Pack<X, kWidth>&... packs) const {
    Pack<Y, kWidth> result;
    for (int lane = 0; lane < kWidth; ++lane) result.values[lane] = function(packs.values[lane]...);
    return result;
  }
};

/// Element-wise work on a dense Y beside operands with the element types X... and steps of their own. Made with a
/// kernel, launched as often as one likes. y may lie over an operand that has the same element at the same place.
template <class Y, class... X>
class Broadcast {
 public:
  static constexpr int kOperands = sizeof...(X);

  Broadcast(const Shape& y, const std::array<std::vector<std::int64_t>, kOperands>& strides)
      : Broadcast(MergedAxes<kOperands>(y, strides)) {}

  template <class Function>
  void launch(void* queue, Function function, void* y, const std::array<const void*, kOperands>& x) const {
    if (takes_packs_) {
      launch_of<kWidth>(queue, function, y, x);
    } else {
      launch_of<1>(queue, function, y, x);
    }
  }

 private:
  static constexpr int kWidth = pack_width<Y, X...>();

  explicit Broadcast(const MergedAxes<kOperands>& merged) : positions_(merged), count_(merged.num_elements) {
    takes_packs_ = merged.rank == 1 || merged.last().dim % kWidth == 0;
    for (int k = 0; k < kOperands; ++k) {
      const std::int64_t step = merged.last().strides[k];
      takes_packs_ = takes_packs_ && (step == 0 || step == 1);
      for (int i = 0; i + 1 < merged.rank && step == 1; ++i) {
        takes_packs_ = takes_packs_ && merged.axes[i].strides[k] % kWidth == 0;
      }
    }
  }

  template <int kTogether, class Function>
  void launch_of(void* queue, Function function, void* y, const std::array<const void*, kOperands>& x) const {
    using Body = BroadcastMap<Function, kTogether, Y, std::index_sequence_for<X...>, X...>;
    launch_each(queue, blocks_for(count_, kTogether), Body{static_cast<Y*>(y), x, positions_, count_, function});
  }

  Positions<kOperands> positions_;
  std::int64_t count_;
  bool takes_packs_;
};

/// y[i] = function(x[i]...) with inputs of the element types X... that are broadcast to y's shape. y may lie over an
/// input of y's type that is not repeated.
template <class Y, class... X, class Function, std::size_t... k>
std::unique_ptr<Kernel> broadcast_kernel(const KernelRequest& request, Function function, std::index_sequence<k...>) {
  const TensorType& y_type = request.outputs[0];
  std::vector<InPlace> in_place;
  for (int input = 0; input < static_cast<int>(sizeof...(X)); ++input) {
    const TensorType& type = request.inputs[input];
    // As many elements: not repeated.
    const bool fits = type.dtype == y_type.dtype && type.shape.num_elements() == y_type.shape.num_elements();
    if (fits) in_place.push_back({input, 0});
  }
  const Broadcast<Y, X...> map(y_type.shape, {broadcast_strides(request.inputs[k].shape, y_type.shape)...});
  return function_kernel(
      [map, function](const KernelArguments& arguments) {
        map.launch(arguments.queue, function, arguments.outputs[0], {arguments.inputs[k]...});
      },
      {.in_place = std::move(in_place)});
}
template <class Y, class... X, class Function>
std::unique_ptr<Kernel> broadcast_kernel(const KernelRequest& request, Function function) {
  return broadcast_kernel<Y, X...>(request, function, std::index_sequence_for<X...>());
}

}  // namespace sectionflow::gpu

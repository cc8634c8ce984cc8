#include "graph/ops/unary.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "device/parallel.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/lines_ahead.h"
#include "kernels/cpu/wide_vectors.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class Function, class T>
void map_stripe(const Function& floats, const T* x, T* y, std::int64_t count) {
  const OfStored<T, Function> function{floats};
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = function(x[i]);
}

constexpr std::int64_t kTurningStripe = 2048;

/// By what there is for numbers near 0, and again where one of them was not. x and y lie apart.
template <class Formula, class Near, class BelowFar, class T>
void turn_stripe(const T* x, T* y, std::int64_t count) {
  constexpr OfStored<T, Near> near{};
  // As bits, of which those of NaN are more than those of any number.
  std::int32_t most = 0;
  const auto step = [=, &most](std::int64_t first, auto length) {
    std::int32_t so_far = most;
#pragma omp simd reduction(max : so_far)
    for (std::int64_t i = 0; i < length; ++i) {
      const auto bits = std::bit_cast<std::int32_t>(vector_math::magnitude(static_cast<float>(x[first + i])));
      so_far = so_far < bits ? bits : so_far;
      y[first + i] = near(x[first + i]);
    }
    most = so_far;
  };
  in_steps(0, count, step, x, y);
  if (most < std::bit_cast<std::int32_t>(vector_math::kNear)) return;
  if (most < std::bit_cast<std::int32_t>(vector_math::kFar)) {
    map_stripe(BelowFar(), x, y, count);
  } else {
    map_stripe(Formula(), x, y, count);
  }
}

/// The same where y may be x.
template <class Formula, class Near, class BelowFar, class T>
void turn(const T* x, T* y, std::int64_t count) {
  T kept[kTurningStripe];
  for (std::int64_t first = 0; first < count; first += kTurningStripe) {
    const std::int64_t length = std::min(kTurningStripe, count - first);
    const T* from = x + first;
    if (x == y) from = std::copy_n(from, length, kept) - length;
    turn_stripe<Formula, Near, BelowFar>(from, y + first, length);
  }
}

struct LoopFunctions : LoopElements {
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) { return copy_kernel(num_bytes); }

  /// Sines: where all numbers of a stripe are near 0, what takes larger ones is left out. The bits are the same.
  template <class Formula, class Near, class BelowFar>
  static std::unique_ptr<Kernel> sine(const KernelRequest& request) {
    const std::int64_t num_elements = request.outputs[0].shape.num_elements();
    return with_stored_type(request.outputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      return function_kernel(
          [num_elements](const KernelArguments& arguments) {
            const T* x = static_cast<const T*>(arguments.inputs[0]);
            T* y = static_cast<T*>(arguments.outputs[0]);
            parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
              in_wide_vectors([=] { turn<Formula, Near, BelowFar>(x + begin, y + begin, end - begin); });
            });
          },
          {.in_place = {{0, 0}}});
    });
  }

  template <class From, class To>
  static std::unique_ptr<Kernel> conversion(std::int64_t num_elements) {
    return function_kernel([num_elements](const KernelArguments& arguments) {
      const From* x = static_cast<const From*>(arguments.inputs[0]);
      To* y = static_cast<To*>(arguments.outputs[0]);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = convert_element<To>(x[i]);
      });
    });
  }
};

}  // namespace

void add_unary_cpu_kernels(KernelRegistry& registry) {
  ElementwiseFamily<LoopFunctions>::add_unary(registry);
}

}  // namespace sectionflow

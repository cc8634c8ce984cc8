#include "graph/ops/unary.h"

#include <algorithm>
#include <cstdint>

#include "device/parallel.h"
#include "kernels/cpu/copies.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/elementwise_family.h"
#include "kernels/function_kernel.h"

namespace sectionflow {
namespace {

template <class Formula, class Near, class T>
void turn_stripe(const T* x, T* y, std::int64_t count) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < count; ++i) {
    const float magnitude = vector_math::magnitude(static_cast<float>(x[i]));
    most = most < magnitude ? magnitude : most;
  }
  constexpr OfStored<T, Formula> any{};
  constexpr OfStored<T, Near> near{};
  if (most < vector_math::kFar) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = near(x[i]);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) y[i] = any(x[i]);
  }
}

/// The kernels as loops over elements.
struct LoopFunctions {
  template <class Formula>
  static std::unique_ptr<Kernel> map(const KernelRequest& request, const Formula& formula) {
    return map_kernel(request, formula);
  }
  template <class Y, class... X, class Function>
  static std::unique_ptr<Kernel> broadcast(const KernelRequest& request, Function function) {
    return broadcast_kernel<Y, X...>(request, function);
  }
  template <class Formula>
  static std::unique_ptr<Kernel> linked(const KernelRequest&, std::unique_ptr<Kernel> kernel) {
    return kernel;
  }
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) { return copy_kernel(num_bytes); }

  /// Sines: where all numbers of a stripe are near 0, what takes larger ones is left out. The bits are the same.
  template <class Formula, class Near>
  static std::unique_ptr<Kernel> sine(const KernelRequest& request) {
    const std::int64_t num_elements = request.outputs[0].shape.num_elements();
    return with_stored_type(request.outputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      return function_kernel(
          [num_elements](const KernelArguments& arguments) {
            const T* x = static_cast<const T*>(arguments.inputs[0]);
            T* y = static_cast<T*>(arguments.outputs[0]);
            parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
              constexpr std::int64_t kStripe = 2048;
              for (std::int64_t first = begin; first < end; first += kStripe) {
                turn_stripe<Formula, Near>(x + first, y + first, std::min(kStripe, end - first));
              }
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

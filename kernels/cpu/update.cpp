#include "graph/ops/update.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cmath>

#include "device/parallel.h"
#include "kernels/cpu/copy_bytes.h"
#include "kernels/cpu/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

std::int64_t num_elements_of(const KernelRequest& request) {
  return request.inputs[0].shape.num_elements();
}

template <class T>
const T* input(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const T*>(arguments.inputs[index]);
}

std::unique_ptr<Kernel> make_assign(const KernelRequest& request) {
  return function_kernel([num_bytes = request.inputs[0].bytes()](const KernelArguments& arguments) {
    copy_bytes(arguments.updated[0], arguments.inputs[1], num_bytes);
  });
}

template <class T>
std::unique_ptr<Kernel> make_assign_add_of(std::int64_t num_elements) {
  return function_kernel([num_elements](const KernelArguments& arguments) {
    T* variable = static_cast<T*>(arguments.updated[0]);
    const T* x = input<T>(arguments, 1);
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) variable[i] = variable[i] + x[i];
    });
  });
}

std::unique_ptr<Kernel> make_assign_add(const KernelRequest& request) {
  switch (request.inputs[0].dtype) {
    case Dtype::f32:
      return make_assign_add_of<float>(num_elements_of(request));
    case Dtype::i64:
      // Unsigned, so that a counter that overflows wraps around.
      return make_assign_add_of<std::uint64_t>(num_elements_of(request));
    default:
      return nullptr;
  }
}

std::unique_ptr<Kernel> make_update_moving_average(const KernelRequest& request) {
  const bool is_training = request.host_booleans[2].value_or(false);
  const std::int64_t num_elements = is_training ? num_elements_of(request) : 0;
  const float decay = request.node.options<MovingAverageOptions>().decay;
  return function_kernel([=](const KernelArguments& arguments) {
    float* variable = static_cast<float*>(arguments.updated[0]);
    const float* x = input<float>(arguments, 1);
    const float rest = 1.0F - decay;
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) variable[i] = decay * variable[i] + rest * x[i];
    });
  });
}

std::unique_ptr<Kernel> make_apply_sgd(const KernelRequest& request) {
  return function_kernel([num_elements = num_elements_of(request)](const KernelArguments& arguments) {
    float* variable = static_cast<float*>(arguments.updated[0]);
    const float* gradient = input<float>(arguments, 1);
    const float learning_rate = *input<float>(arguments, 2);
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) variable[i] = variable[i] - learning_rate * gradient[i];
    });
  });
}

/// Adam's numbers for one step.
struct AdamStep {
  float beta1, beta2, rest1, rest2, epsilon, rate;
};

AdamStep adam_step(const AdamOptions& options, float learning_rate, std::int64_t steps) {
  const double t = static_cast<double>(steps) + 1;
  // In double: 1 - beta2^t of f32 numbers would lose half its digits in the first steps.
  const double correction =
      std::sqrt(1 - std::pow(double{options.beta2}, t)) / (1 - std::pow(double{options.beta1}, t));
  return {options.beta1,        options.beta2,   1.0F - options.beta1,
          1.0F - options.beta2, options.epsilon, static_cast<float>(learning_rate * correction)};
}

constexpr std::int64_t kStripe = 512;

/// roots = sqrt(roots). By intrinsic: std::sqrt may set errno, which keeps it out of vectors.
void take_roots(float (&roots)[kStripe]) {
  for (std::int64_t i = 0; i < kStripe; i += 4) _mm_storeu_ps(roots + i, _mm_sqrt_ps(_mm_loadu_ps(roots + i)));
}

/// One stripe of at most kStripe elements, which stay in the first-level cache between the loops.
void apply_adam_to(float* variable, float* m, float* v, const float* gradient, std::int64_t count,
                   const AdamStep& step) {
  float roots[kStripe] = {};
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    m[i] = step.beta1 * m[i] + step.rest1 * g;
    v[i] = step.beta2 * v[i] + step.rest2 * (g * g);
    roots[i] = v[i];
  }
  take_roots(roots);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    variable[i] = variable[i] - step.rate * m[i] / (roots[i] + step.epsilon);
  }
}

std::unique_ptr<Kernel> make_apply_adam(const KernelRequest& request) {
  const std::int64_t num_elements = num_elements_of(request);
  return function_kernel(
      [num_elements, options = request.node.options<AdamOptions>()](const KernelArguments& arguments) {
        const AdamStep step = adam_step(options, *input<float>(arguments, 4), *input<std::int64_t>(arguments, 5));
        float* variable = static_cast<float*>(arguments.updated[0]);
        float* m = static_cast<float*>(arguments.updated[1]);
        float* v = static_cast<float*>(arguments.updated[2]);
        const float* gradient = input<float>(arguments, 3);
        parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; i += kStripe) {
            apply_adam_to(variable + i, m + i, v + i, gradient + i, std::min(kStripe, end - i), step);
          }
        });
      });
}

}  // namespace

void add_update_cpu_kernels(KernelRegistry& registry) {
  registry.add("assign", make_assign);
  registry.add("assign_add", make_assign_add);
  registry.add("update_moving_average", make_update_moving_average);
  registry.add("apply_sgd", make_apply_sgd);
  registry.add("apply_adam", make_apply_adam);
}

}  // namespace sectionflow

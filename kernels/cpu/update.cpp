#include "graph/ops/update.h"

#include <xmmintrin.h>

#include <algorithm>

#include "device/parallel.h"
#include "kernels/cpu/copy_bytes.h"
#include "kernels/formulas/update.h"
#include "kernels/function_kernel.h"
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
    const formulas::Average average{decay, 1.0F - decay};
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) variable[i] = average(variable[i], x[i]);
    });
  });
}

std::unique_ptr<Kernel> make_apply_sgd(const KernelRequest& request) {
  return function_kernel([num_elements = num_elements_of(request)](const KernelArguments& arguments) {
    float* variable = static_cast<float*>(arguments.updated[0]);
    const float* gradient = input<float>(arguments, 1);
    const formulas::Step step{*input<float>(arguments, 2)};
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) variable[i] = step(variable[i], gradient[i]);
    });
  });
}

std::unique_ptr<Kernel> make_apply_momentum(const KernelRequest& request) {
  const auto options = request.node.options<MomentumOptions>();
  return function_kernel([num_elements = num_elements_of(request), options](const KernelArguments& arguments) {
    float* variable = static_cast<float*>(arguments.updated[0]);
    float* velocity = static_cast<float*>(arguments.updated[1]);
    const float* gradient = input<float>(arguments, 2);
    const formulas::Step step{*input<float>(arguments, 3)};
    const formulas::Velocity next{options.momentum};
    parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
      if (options.nesterov) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          const float g = gradient[i];
          velocity[i] = next(velocity[i], g);
          variable[i] = step(variable[i], next.ahead(velocity[i], g));
        }
      } else {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          velocity[i] = next(velocity[i], gradient[i]);
          variable[i] = step(variable[i], velocity[i]);
        }
      }
    });
  });
}

constexpr std::int64_t kStripe = 512;

/// roots = sqrt(roots). By intrinsic: std::sqrt may set errno, which keeps it out of vectors.
void take_roots(float (&roots)[kStripe]) {
  for (std::int64_t i = 0; i < kStripe; i += 4) _mm_storeu_ps(roots + i, _mm_sqrt_ps(_mm_loadu_ps(roots + i)));
}

/// Calls `body(begin, count)` for stripes of at most kStripe elements, which stay in the first-level cache between the
/// loops over them.
template <class Body>
void for_each_stripe(std::int64_t num_elements, const Body& body) {
  parallel_for(num_elements, kParallelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kStripe) body(i, std::min(kStripe, end - i));
  });
}

/// Applies `step` to a stripe, with the roots of `squares`.
void apply_step(const formulas::ScaledStep& step, float* variable, const float* direction, const float* squares,
                std::int64_t count) {
  float roots[kStripe] = {};
  std::copy_n(squares, count, roots);
  take_roots(roots);
  const formulas::ScaledStep scaled = step;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) variable[i] = scaled(variable[i], direction[i], roots[i]);
}

/// What Adam, or AdamW, does in one step.
struct AdamStep {
  float beta1, beta2;
  formulas::ScaledStep scaled;

  void apply(float* variable, float* m, float* v, const float* gradient, std::int64_t count) const {
    const formulas::Average first{beta1, 1.0F - beta1}, second{beta2, 1.0F - beta2};
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = gradient[i];
      m[i] = first(m[i], g);
      v[i] = second(v[i], g * g);
    }
    apply_step(scaled, variable, m, v, count);
  }
};

template <class Options>
std::unique_ptr<Kernel> make_apply_adam(const KernelRequest& request) {
  const std::int64_t num_elements = num_elements_of(request);
  return function_kernel([num_elements, options = request.node.options<Options>()](const KernelArguments& arguments) {
    const AdamStep step{options.beta1, options.beta2,
                        formulas::adam_step(options, *input<float>(arguments, 4), *input<std::int64_t>(arguments, 5))};
    float* variable = static_cast<float*>(arguments.updated[0]);
    float* m = static_cast<float*>(arguments.updated[1]);
    float* v = static_cast<float*>(arguments.updated[2]);
    const float* gradient = input<float>(arguments, 3);
    for_each_stripe(num_elements, [=](std::int64_t i, std::int64_t count) {
      step.apply(variable + i, m + i, v + i, gradient + i, count);
    });
  });
}

/// squares = kept squares + added g^2; variable -= learning_rate g / (sqrt(squares) + epsilon).
std::unique_ptr<Kernel> make_scaled_by_squares(const KernelRequest& request, float kept, float added, float epsilon) {
  return function_kernel([=, num_elements = num_elements_of(request)](const KernelArguments& arguments) {
    float* variable = static_cast<float*>(arguments.updated[0]);
    float* squares = static_cast<float*>(arguments.updated[1]);
    const float* gradient = input<float>(arguments, 2);
    const formulas::ScaledStep step{*input<float>(arguments, 3), epsilon};
    const formulas::Average sum{kept, added};
    for_each_stripe(num_elements, [=](std::int64_t first, std::int64_t count) {
#pragma omp simd
      for (std::int64_t i = first; i < first + count; ++i) {
        squares[i] = sum(squares[i], gradient[i] * gradient[i]);
      }
      apply_step(step, variable + first, gradient + first, squares + first, count);
    });
  });
}

std::unique_ptr<Kernel> make_apply_adagrad(const KernelRequest& request) {
  return make_scaled_by_squares(request, 1, 1, request.node.options<AdagradOptions>().epsilon);
}

std::unique_ptr<Kernel> make_apply_rms_prop(const KernelRequest& request) {
  const auto options = request.node.options<RmsPropOptions>();
  return make_scaled_by_squares(request, options.decay, 1.0F - options.decay, options.epsilon);
}

}  // namespace

void add_update_cpu_kernels(KernelRegistry& registry) {
  registry.add("assign", make_assign, Bf16::native);
  registry.add("assign_add", make_assign_add);
  registry.add("update_moving_average", make_update_moving_average);
  registry.add("apply_sgd", make_apply_sgd);
  registry.add("apply_momentum", make_apply_momentum);
  registry.add("apply_adam", make_apply_adam<AdamOptions>);
  registry.add("apply_adam_w", make_apply_adam<AdamWOptions>);
  registry.add("apply_adagrad", make_apply_adagrad);
  registry.add("apply_rms_prop", make_apply_rms_prop);
}

}  // namespace sectionflow

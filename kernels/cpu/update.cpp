#include <xmmintrin.h>

#include <algorithm>

#include "device/parallel.h"
#include "kernels/cpu/copies.h"
#include "kernels/function_kernel.h"
#include "kernels/stored_element.h"
#include "kernels/update_family.h"

namespace sectionflow {
namespace {

template <class T>
const T* input(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const T*>(arguments.inputs[index]);
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
template <class Direction>
void apply_step(const formulas::ScaledStep& step, float* variable, const Direction* direction, const float* squares,
                std::int64_t count) {
  float roots[kStripe] = {};
  std::copy_n(squares, count, roots);
  take_roots(roots);
  const formulas::ScaledStep scaled = step;
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) variable[i] = scaled(variable[i], stored<float>(direction[i]), roots[i]);
}

/// A kernel of `update(arguments)`, which happens where the input `gate` is true, or always where there is none.
template <class Update>
std::unique_ptr<Kernel> gated(int gate, Update update) {
  return function_kernel([gate, update](const KernelArguments& arguments) {
    if (gate < 0 || *input<bool>(arguments, static_cast<std::size_t>(gate))) update(arguments);
  });
}

/// What Adam, or AdamW, does in one step.
struct AdamStep {
  float beta1, beta2;
  formulas::ScaledStep scaled;

  template <class G>
  void apply(float* variable, float* m, float* v, const G* gradient, std::int64_t count) const {
    const formulas::Average first{beta1, 1.0F - beta1}, second{beta2, 1.0F - beta2};
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float g = stored<float>(gradient[i]);
      m[i] = first(m[i], g);
      v[i] = second(v[i], g * g);
    }
    apply_step(scaled, variable, m, v, count);
  }
};

/// The kernels as loops over the elements.
struct LoopUpdates {
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) {
    return function_kernel([num_bytes](const KernelArguments& arguments) {
      copy_bytes(arguments.updated[0], arguments.inputs[1], num_bytes);
    });
  }

  template <class T, class Function>
  static std::unique_ptr<Kernel> map(std::int64_t num_elements, Function function, int gate) {
    return gated(gate, [=](const KernelArguments& arguments) {
      T* variable = static_cast<T*>(arguments.updated[0]);
      const T* x = input<T>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) variable[i] = function(variable[i], x[i]);
      });
    });
  }

  template <class G>
  static std::unique_ptr<Kernel> sgd(std::int64_t num_elements, int gate) {
    return gated(gate, [num_elements](const KernelArguments& arguments) {
      float* variable = static_cast<float*>(arguments.updated[0]);
      const G* gradient = input<G>(arguments, 1);
      const formulas::Step step{*input<float>(arguments, 2)};
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) variable[i] = step(variable[i], stored<float>(gradient[i]));
      });
    });
  }

  template <class G>
  static std::unique_ptr<Kernel> momentum(std::int64_t num_elements, formulas::Velocity next, bool nesterov, int gate) {
    return gated(gate, [=](const KernelArguments& arguments) {
      float* variable = static_cast<float*>(arguments.updated[0]);
      float* velocity = static_cast<float*>(arguments.updated[1]);
      const G* gradient = input<G>(arguments, 2);
      const formulas::Step step{*input<float>(arguments, 3)};
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
        if (nesterov) {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            const float g = stored<float>(gradient[i]);
            velocity[i] = next(velocity[i], g);
            variable[i] = step(variable[i], next.ahead(velocity[i], g));
          }
        } else {
#pragma omp simd
          for (std::int64_t i = begin; i < end; ++i) {
            velocity[i] = next(velocity[i], stored<float>(gradient[i]));
            variable[i] = step(variable[i], velocity[i]);
          }
        }
      });
    });
  }

  template <class G>
  static std::unique_ptr<Kernel> by_squares(std::int64_t num_elements, formulas::Average sum, float epsilon, int gate) {
    return gated(gate, [=](const KernelArguments& arguments) {
      float* variable = static_cast<float*>(arguments.updated[0]);
      float* squares = static_cast<float*>(arguments.updated[1]);
      const G* gradient = input<G>(arguments, 2);
      const formulas::ScaledStep step{*input<float>(arguments, 3), epsilon};
      for_each_stripe(num_elements, [=](std::int64_t first, std::int64_t count) {
#pragma omp simd
        for (std::int64_t i = first; i < first + count; ++i) {
          const float g = stored<float>(gradient[i]);
          squares[i] = sum(squares[i], g * g);
        }
        apply_step(step, variable + first, gradient + first, squares + first, count);
      });
    });
  }

  template <class G, class Options>
  static std::unique_ptr<Kernel> adam(std::int64_t num_elements, const Options& options, int gate) {
    return gated(gate, [num_elements, options](const KernelArguments& arguments) {
      const AdamStep step{
          options.beta1, options.beta2,
          formulas::adam_step(options, *input<float>(arguments, 4), *input<std::int64_t>(arguments, 5))};
      float* variable = static_cast<float*>(arguments.updated[0]);
      float* m = static_cast<float*>(arguments.updated[1]);
      float* v = static_cast<float*>(arguments.updated[2]);
      const G* gradient = input<G>(arguments, 3);
      for_each_stripe(num_elements, [=](std::int64_t i, std::int64_t count) {
        step.apply(variable + i, m + i, v + i, gradient + i, count);
      });
    });
  }

  template <class G>
  static std::unique_ptr<Kernel> lion(std::int64_t num_elements, const LionOptions& options, int gate) {
    return gated(gate, [num_elements, options](const KernelArguments& arguments) {
      float* variable = static_cast<float*>(arguments.updated[0]);
      float* m = static_cast<float*>(arguments.updated[1]);
      const G* gradient = input<G>(arguments, 2);
      const formulas::LionStep step = formulas::lion_step(options, *input<float>(arguments, 3));
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
        const formulas::LionStep next = step;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) {
          const float g = stored<float>(gradient[i]);
          variable[i] = next(variable[i], m[i], g);
          m[i] = next.average(m[i], g);
        }
      });
    });
  }

  static std::unique_ptr<Kernel> average(std::int64_t num_elements, const WeightAverageOptions& options, int gate) {
    return gated(gate, [num_elements, options](const KernelArguments& arguments) {
      const formulas::WeightAverage next = formulas::weight_average(options, *input<std::int64_t>(arguments, 2));
      if (!next.is_taken) return;
      float* average = static_cast<float*>(arguments.updated[0]);
      const float* variable = input<float>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
        const formulas::WeightAverage taken = next;
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) average[i] = taken(average[i], variable[i]);
      });
    });
  }

  static std::unique_ptr<Kernel> accumulated(std::int64_t num_elements) {
    const auto sum = [num_elements](const KernelArguments& arguments) {
      const formulas::Accumulated add{*input<std::int64_t>(arguments, 2) == 0};
      float* y = static_cast<float*>(arguments.outputs[0]);
      const float *before = input<float>(arguments, 0), *x = input<float>(arguments, 1);
      parallel_for(num_elements, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) y[i] = add(before[i], x[i]);
      });
    };
    return function_kernel(sum, {.in_place = {{1, 0}}});
  }
};

}  // namespace

void add_update_cpu_kernels(KernelRegistry& registry) {
  UpdateFamily<LoopUpdates>::add_to(registry);
}

}  // namespace sectionflow

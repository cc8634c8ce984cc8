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

/// A kernel of `update(arguments)`, which happens where the input `gate` is true, or always where there is none.
template <class Update>
std::unique_ptr<Kernel> gated(int gate, Update update) {
  return function_kernel([gate, update](const KernelArguments& arguments) {
    if (gate < 0 || *input<bool>(arguments, static_cast<std::size_t>(gate))) update(arguments);
  });
}

/// A variable with its slots, and the gradient, which is stored as G.
template <int kStates, class G>
struct States {
  explicit States(const KernelArguments& arguments) : gradient(input<G>(arguments, kStates)) {
    for (std::size_t s = 0; s < kStates; ++s) states[s] = static_cast<float*>(arguments.updated[s]);
  }

  template <class Rule>
  void update(std::int64_t begin, std::int64_t end, const Rule& rule, const typename Rule::Step& step) const {
    const Rule of = rule;
    const typename Rule::Step by = step;
    float* to[kStates];
    std::copy_n(states, kStates, to);
    const G* g = gradient;
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      float elements[kStates];
      for (int s = 0; s < kStates; ++s) elements[s] = to[s][i];
      of(by, elements, stored<float>(g[i]));
      for (int s = 0; s < kStates; ++s) to[s][i] = elements[s];
    }
  }

  float* states[kStates];
  const G* gradient;
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

  template <class G, class Rule>
  static std::unique_ptr<Kernel> by_rule(std::int64_t num_elements, const Rule& rule, int gate) {
    return gated(gate, [num_elements, rule](const KernelArguments& arguments) {
      constexpr std::size_t kRate = Rule::kStates + 1;
      const std::int64_t steps = Rule::kCounts ? *input<std::int64_t>(arguments, kRate + 1) : 0;
      const auto step = rule.step(*input<float>(arguments, kRate), steps);
      const States<Rule::kStates, G> states(arguments);
      parallel_for(num_elements, kParallelGrain,
                   [&](std::int64_t begin, std::int64_t end) { states.update(begin, end, rule, step); });
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

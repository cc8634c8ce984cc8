#include <cstdint>

#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/joint.h"
#include "kernels/function_kernel.h"
#include "kernels/update_family.h"

namespace sectionflow {
namespace {

const float* f32_input(const KernelArguments& arguments, std::size_t index) {
  return static_cast<const float*>(arguments.inputs[index]);
}

/// Elements [first, first + width) of a variable and what belongs to it. The gradient is stored as G.
template <int kStates, class G>
struct States {
  static constexpr int kWidth = gpu::pack_width<float>();
  float* states[kStates];
  const G* gradient;
  std::int64_t count;

  template <class Rule>
  SF_HOST_DEVICE void update(std::int64_t first, const Rule& rule, const typename Rule::Step& step) const {
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) {
        float elements[kStates];
        for (int s = 0; s < kStates; ++s) elements[s] = states[s][j];
        rule(step, elements, static_cast<float>(gradient[j]));
        for (int s = 0; s < kStates; ++s) states[s][j] = elements[s];
      }
      return;
    }
    const auto slopes = gpu::load_pack<kWidth>(gradient + first);
    gpu::Pack<float, kWidth> packs[kStates];
    for (int s = 0; s < kStates; ++s) packs[s] = gpu::load_pack<kWidth>(states[s] + first);
    for (int lane = 0; lane < kWidth; ++lane) {
      float elements[kStates];
      for (int s = 0; s < kStates; ++s) elements[s] = packs[s].values[lane];
      rule(step, elements, static_cast<float>(slopes.values[lane]));
      for (int s = 0; s < kStates; ++s) packs[s].values[lane] = elements[s];
    }
    for (int s = 0; s < kStates; ++s) gpu::store_pack(states[s] + first, packs[s]);
  }
};

template <int kStates, class G>
States<kStates, G> states_of(const KernelArguments& arguments, std::int64_t count) {
  States<kStates, G> result{{}, static_cast<const G*>(arguments.inputs[kStates]), count};
  for (int s = 0; s < kStates; ++s) result.states[s] = static_cast<float*>(arguments.updated[s]);
  return result;
}

/// A pack a thread.
template <class Rule, class G>
struct UpdatePack {
  States<Rule::kStates, G> states;
  const float* learning_rate;
  Rule rule;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    states.update(i * states.kWidth, rule, rule.step(*learning_rate, 0));
  }
};

/// A block takes a stretch of the variable, so that the powers of a step, dear in double, are computed once for all of
/// it.
template <class Rule, class G>
struct CountedPart {
  static constexpr int kThreads = 256;
  static constexpr std::size_t kSharedBytes = sizeof(typename Rule::Step);
  static constexpr int kPacks = 4;  // a thread
  using Of = States<Rule::kStates, G>;
  static constexpr std::int64_t kStretch = std::int64_t{kThreads} * kPacks * Of::kWidth;
  Of states;
  const float* learning_rate;
  const std::int64_t* steps;
  Rule rule;

  std::int64_t num_blocks() const { return (states.count + kStretch - 1) / kStretch; }

  template <class Thread>
  SF_HOST_DEVICE void run(Thread& thread, std::int64_t block) const {
    auto shared = thread.template shared<typename Rule::Step>(0, 1);
    if (thread.index() == 0) shared[0] = rule.step(*learning_rate, *steps);
    thread.barrier();
    const typename Rule::Step step = shared[0];
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t number = pack * kThreads + thread.index();
      states.update(block * kStretch + number * states.kWidth, rule, step);
    }
  }
};

/// An element of an average a thread.
struct AverageElement {
  float* average;
  const float* variable;
  const std::int64_t* updates;
  WeightAverageOptions options;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const formulas::WeightAverage next = formulas::weight_average(options, *updates);
    if (next.is_taken) average[i] = next(average[i], variable[i]);
  }
};

/// An element of a variable a thread, which takes that of one row after the other.
template <class Function>
struct RowsElement {
  float* variable;
  const float* x;
  std::int64_t count, rows;
  Function function;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    float element = variable[i];
    for (std::int64_t row = 0; row < rows; ++row) element = function(element, x[row * count + i]);
    variable[i] = element;
  }
};

/// An element of a sum over micro-batches a thread.
struct AccumulatedElement {
  float* y;
  const float* sum;
  const float* x;
  const std::int64_t* micro_batch;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    const formulas::Accumulated add{*micro_batch == 0};
    y[i] = add(sum[i], x[i]);
  }
};

/// The kernels as parts of launches. The variable and its slots come first among the inputs, then the gradient and the
/// learning rate.
struct JointUpdates {
  static std::unique_ptr<Kernel> copy(std::size_t num_bytes) {
    return function_kernel([num_bytes](const KernelArguments& arguments) {
      gpu::copy_bytes(arguments.queue, arguments.updated[0], arguments.inputs[1], num_bytes);
    });
  }

  template <class T, class Function>
  static std::unique_ptr<Kernel> map(std::int64_t count, Function function, int gate) {
    using Map = gpu::FlatMap<Function, T, std::index_sequence_for<T, T>, T, T>;
    return gpu::gated(gate, [count, function](const KernelArguments& arguments) {
      const Map map{
          static_cast<T*>(arguments.updated[0]), {arguments.updated[0], arguments.inputs[1]}, count, function};
      return gpu::EachPart<Map>{map, gpu::blocks_for(count, Map::kWidth)};
    });
  }

  template <class Function>
  static std::unique_ptr<Kernel> map_rows(std::int64_t count, std::int64_t rows, Function function) {
    return function_kernel([=](const KernelArguments& arguments) {
      gpu::launch_each(
          arguments.queue, count,
          RowsElement<Function>{static_cast<float*>(arguments.updated[0]), f32_input(arguments, 1), count, rows,
                                function});
    });
  }

  template <class G, class Rule>
  static std::unique_ptr<Kernel> by_rule(std::int64_t count, const Rule& rule, int gate) {
    return gpu::gated(gate, [count, rule](const KernelArguments& arguments) {
      constexpr int kRate = Rule::kStates + 1;
      const auto states = states_of<Rule::kStates, G>(arguments, count);
      if constexpr (Rule::kCounts) {
        return CountedPart<Rule, G>{states, f32_input(arguments, kRate),
                                    static_cast<const std::int64_t*>(arguments.inputs[kRate + 1]), rule};
      } else {
        using Body = UpdatePack<Rule, G>;
        const Body body{states, f32_input(arguments, kRate), rule};
        return gpu::EachPart<Body>{body, gpu::blocks_for(count, states.kWidth)};
      }
    });
  }

  static std::unique_ptr<Kernel> average(std::int64_t count, const WeightAverageOptions& options, int gate) {
    return gpu::gated(gate, [count, options](const KernelArguments& arguments) {
      const AverageElement body{static_cast<float*>(arguments.updated[0]), f32_input(arguments, 1),
                                static_cast<const std::int64_t*>(arguments.inputs[2]), options};
      return gpu::EachPart<AverageElement>{body, count};
    });
  }
  static std::unique_ptr<Kernel> accumulated(std::int64_t count) {
    return function_kernel(
        [count](const KernelArguments& arguments) {
          gpu::launch_each(
              arguments.queue, count,
              AccumulatedElement{static_cast<float*>(arguments.outputs[0]), f32_input(arguments, 0),
                                 f32_input(arguments, 1), static_cast<const std::int64_t*>(arguments.inputs[2])});
        },
        {.in_place = {{1, 0}}});
  }
};

}  // namespace

void add_update_cuda_kernels(KernelRegistry& registry) {
  UpdateFamily<JointUpdates>::add_to(registry);
}

}  // namespace sectionflow

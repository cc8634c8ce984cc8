#include <cmath>
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

/// Elements [first, first + width) of a variable and what belongs to it: rule(states, gradient) changes one element of
/// each of them, the variable itself first. The gradient is stored as G.
template <int kStates, class G>
struct States {
  static constexpr int kWidth = gpu::pack_width<float>();
  float* states[kStates];
  const G* gradient;
  std::int64_t count;

  template <class Rule>
  SF_HOST_DEVICE void update(std::int64_t first, const Rule& rule) const {
    if (first + kWidth > count) {
      for (std::int64_t j = first; j < count; ++j) {
        float elements[kStates];
        for (int s = 0; s < kStates; ++s) elements[s] = states[s][j];
        rule(elements, static_cast<float>(gradient[j]));
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
      rule(elements, static_cast<float>(slopes.values[lane]));
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

/// A pack a thread, by a rule that is made with the learning rate.
template <class Rule, class G>
struct UpdatePack {
  States<Rule::kStates, G> states;
  const float* learning_rate;
  Rule rule;

  SF_HOST_DEVICE void operator()(std::int64_t i) const {
    Rule of_this_step = rule;
    of_this_step.set_learning_rate(*learning_rate);
    states.update(i * states.kWidth, of_this_step);
  }
};

struct SgdRule {
  static constexpr int kStates = 1;
  formulas::Step step;
  SF_HOST_DEVICE void set_learning_rate(float rate) { step.learning_rate = rate; }
  SF_HOST_DEVICE void operator()(float (&state)[1], float gradient) const { state[0] = step(state[0], gradient); }
};

template <bool kNesterov>
struct MomentumRule {
  static constexpr int kStates = 2;
  formulas::Velocity velocity;
  formulas::Step step;
  SF_HOST_DEVICE void set_learning_rate(float rate) { step.learning_rate = rate; }
  SF_HOST_DEVICE void operator()(float (&state)[2], float gradient) const {
    state[1] = velocity(state[1], gradient);
    state[0] = step(state[0], kNesterov ? velocity.ahead(state[1], gradient) : state[1]);
  }
};

struct SquaresRule {
  static constexpr int kStates = 2;
  formulas::Average squares;
  formulas::ScaledStep step;
  SF_HOST_DEVICE void set_learning_rate(float rate) { step.rate = rate; }
  SF_HOST_DEVICE void operator()(float (&state)[2], float gradient) const {
    state[1] = squares(state[1], gradient * gradient);
    state[0] = step(state[0], gradient, std::sqrt(state[1]));
  }
};

struct LionRule {
  static constexpr int kStates = 2;
  LionOptions options;
  formulas::LionStep step;
  SF_HOST_DEVICE void set_learning_rate(float rate) { step = formulas::lion_step(options, rate); }
  SF_HOST_DEVICE void operator()(float (&state)[2], float gradient) const {
    state[0] = step(state[0], state[1], gradient);
    state[1] = step.average(state[1], gradient);
  }
};

struct AdamRule {
  formulas::Average first, second;
  formulas::ScaledStep step;
  SF_HOST_DEVICE void operator()(float (&state)[3], float gradient) const {
    state[1] = first(state[1], gradient);
    state[2] = second(state[2], gradient * gradient);
    state[0] = step(state[0], state[1], std::sqrt(state[2]));
  }
};

/// A block takes a stretch of the variable, so that the powers of a step, dear in double, are computed once for all of
/// it.
template <class Options, class G>
struct AdamPart {
  static constexpr int kThreads = 256;
  static constexpr std::size_t kSharedBytes = 3 * sizeof(float);
  static constexpr int kPacks = 4;  // a thread
  static constexpr std::int64_t kStretch = std::int64_t{kThreads} * kPacks * States<3, G>::kWidth;
  States<3, G> states;
  const float* learning_rate;
  const std::int64_t* steps;
  Options options;

  std::int64_t num_blocks() const { return (states.count + kStretch - 1) / kStretch; }

  template <class Thread>
  SF_HOST_DEVICE void run(Thread& thread, std::int64_t block) const {
    auto shared = thread.template shared<float>(0, 3);
    if (thread.index() == 0) {
      const formulas::ScaledStep step = formulas::adam_step(options, *learning_rate, *steps);
      shared[0] = step.rate;
      shared[1] = step.epsilon;
      shared[2] = step.kept;
    }
    thread.barrier();
    const AdamRule rule{{options.beta1, 1.0F - options.beta1},
                        {options.beta2, 1.0F - options.beta2},
                        {shared[0], shared[1], shared[2]}};
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t number = pack * kThreads + thread.index();
      states.update(block * kStretch + number * states.kWidth, rule);
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

  template <class G>
  static std::unique_ptr<Kernel> sgd(std::int64_t count, int gate) {
    return by_rule<G>(count, SgdRule{}, gate);
  }
  template <class G>
  static std::unique_ptr<Kernel> momentum(std::int64_t count, formulas::Velocity velocity, bool nesterov, int gate) {
    return nesterov ? by_rule<G>(count, MomentumRule<true>{velocity, {}}, gate)
                    : by_rule<G>(count, MomentumRule<false>{velocity, {}}, gate);
  }
  template <class G>
  static std::unique_ptr<Kernel> by_squares(std::int64_t count, formulas::Average squares, float epsilon, int gate) {
    return by_rule<G>(count, SquaresRule{squares, {0, epsilon}}, gate);
  }

  template <class G, class Options>
  static std::unique_ptr<Kernel> adam(std::int64_t count, const Options& options, int gate) {
    return gpu::gated(gate, [count, options](const KernelArguments& arguments) {
      return AdamPart<Options, G>{states_of<3, G>(arguments, count), f32_input(arguments, 4),
                                  static_cast<const std::int64_t*>(arguments.inputs[5]), options};
    });
  }

  template <class G>
  static std::unique_ptr<Kernel> lion(std::int64_t count, const LionOptions& options, int gate) {
    return by_rule<G>(count, LionRule{options, {}}, gate);
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

 private:
  template <class G, class Rule>
  static std::unique_ptr<Kernel> by_rule(std::int64_t count, Rule rule, int gate) {
    return gpu::gated(gate, [count, rule](const KernelArguments& arguments) {
      constexpr int kStates = Rule::kStates;
      using Body = UpdatePack<Rule, G>;
      const Body body{states_of<kStates, G>(arguments, count), f32_input(arguments, kStates + 1), rule};
      return gpu::EachPart<Body>{body, gpu::blocks_for(count, States<kStates, G>::kWidth)};
    });
  }
};

}  // namespace

void add_update_cuda_kernels(KernelRegistry& registry) {
  UpdateFamily<JointUpdates>::add_to(registry);
}

}  // namespace sectionflow

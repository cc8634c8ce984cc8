#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include "graph/ops/update.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/formulas/update.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {

// What optimisers do with an element: a rule changes those of a variable and of its kStates - 1 slots, the variable's
// first, by a gradient. With kCounts it reads the steps taken behind the learning rate. What follows from both is
// computed once for many elements: `Step step(learning_rate, steps)`.

struct SgdRule {
  static constexpr int kStates = 1;
  static constexpr bool kCounts = false;
  using Step = formulas::Step;
  SF_HOST_DEVICE Step step(float learning_rate, std::int64_t) const { return {learning_rate}; }
  SF_HOST_DEVICE void operator()(const Step& step, float (&state)[1], float gradient) const {
    state[0] = step(state[0], gradient);
  }
};

template <bool kNesterov>
struct MomentumRule {
  static constexpr int kStates = 2;
  static constexpr bool kCounts = false;
  using Step = formulas::Step;
  formulas::Velocity velocity;
  SF_HOST_DEVICE Step step(float learning_rate, std::int64_t) const { return {learning_rate}; }
  SF_HOST_DEVICE void operator()(const Step& step, float (&state)[2], float gradient) const {
    state[1] = velocity(state[1], gradient);
    state[0] = step(state[0], kNesterov ? velocity.ahead(state[1], gradient) : state[1]);
  }
};

struct SquaresRule {
  static constexpr int kStates = 2;
  static constexpr bool kCounts = false;
  using Step = formulas::ScaledStep;
  formulas::Average squares;
  float epsilon;
  SF_HOST_DEVICE Step step(float learning_rate, std::int64_t) const { return {learning_rate, epsilon}; }
  SF_HOST_DEVICE void operator()(const Step& step, float (&state)[2], float gradient) const {
    state[1] = squares(state[1], gradient * gradient);
    state[0] = step(state[0], gradient, std::sqrt(state[1]));
  }
};

struct LionRule {
  static constexpr int kStates = 2;
  static constexpr bool kCounts = false;
  using Step = formulas::LionStep;
  LionOptions options;
  SF_HOST_DEVICE Step step(float learning_rate, std::int64_t) const {
    return formulas::lion_step(options, learning_rate);
  }
  SF_HOST_DEVICE void operator()(const Step& step, float (&state)[2], float gradient) const {
    state[0] = step(state[0], state[1], gradient);
    state[1] = step.average(state[1], gradient);
  }
};

/// For AdamOptions and AdamWOptions.
template <class Options>
struct AdamRule {
  static constexpr int kStates = 3;
  static constexpr bool kCounts = true;
  using Step = formulas::ScaledStep;
  Options options;
  SF_HOST_DEVICE Step step(float learning_rate, std::int64_t steps) const {
    return formulas::adam_step(options, learning_rate, steps);
  }
  SF_HOST_DEVICE void operator()(const Step& step, float (&state)[3], float gradient) const {
    const formulas::Average first{options.beta1, 1.0F - options.beta1}, second{options.beta2, 1.0F - options.beta2};
    state[1] = first(state[1], gradient);
    state[2] = second(state[2], gradient * gradient);
    state[0] = step(state[0], state[1], std::sqrt(state[2]));
  }
};

/// The updates of variables: what a request asks for, in numbers and formulas. How a device goes through the elements
/// is up to `Updates`, whose static functions make a kernel each, of a variable with `count` elements:
/// - `copy(num_bytes)`: variable = x;
/// - `map<T>(count, function)`: variable = function(variable, x);
/// - `map_rows(count, rows, function)`, with `rows` x of f32, one behind the other, taken in turn; it has no gate;
/// - `by_rule<G>(count, rule)`, with a gradient that is stored as G, f32 or bf16;
/// - `average(count, options)`: average = weight_average(options, updates)(average, variable), where it is taken;
/// - `accumulated(count)`: y = Accumulated{micro_batch = 0}(accumulator, x), which may lie over x.
/// All others but the copy and the last take a `gate` last: the number of the input, a boolean on the device, that lets
/// the update happen; below 0: it always does.
template <class Updates>
class UpdateFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("assign", assign, Bf16::native);
    registry.add("assign_add", assign_add);
    registry.add("update_moving_average", update_moving_average);
    registry.add("apply_sgd", apply_sgd, Bf16::native);
    registry.add("apply_momentum", apply_momentum, Bf16::native);
    registry.add("apply_adam", apply_adam<AdamOptions>, Bf16::native);
    registry.add("apply_adam_w", apply_adam<AdamWOptions>, Bf16::native);
    registry.add("apply_adagrad", apply_adagrad, Bf16::native);
    registry.add("apply_rms_prop", apply_rms_prop, Bf16::native);
    registry.add("apply_lion", apply_lion, Bf16::native);
    registry.add("average_weights", average_weights);
    registry.add("accumulated", accumulated);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  static std::int64_t count(const KernelRequest& request) { return request.inputs[0].shape.num_elements(); }

  /// Of an op with that many inputs of its own, behind which a condition and then a gate may follow.
  static int gate(const KernelRequest& request, int own) {
    return static_cast<int>(request.inputs.size()) > own + 1 ? own + 1 : -1;
  }

  static Made assign(const KernelRequest& request) { return Updates::copy(request.inputs[0].bytes()); }
  static Made assign_add(const KernelRequest& request) {
    switch (request.inputs[0].dtype) {
      case Dtype::f32:
        return Updates::template map<float>(count(request), formulas::Add(), gate(request, 2));
      case Dtype::i64:
        // Unsigned, so that a counter that overflows wraps around.
        return Updates::template map<std::uint64_t>(count(request), formulas::Add(), gate(request, 2));
      default:
        return nullptr;
    }
  }
  static Made update_moving_average(const KernelRequest& request) {
    const bool is_training = host_boolean(request, 2);
    const float decay = request.node.options<MovingAverageOptions>().decay;
    const formulas::Average average{decay, 1.0F - decay};
    const Shape& x = request.inputs[1].shape;
    if (is_training && x.rank() > request.inputs[0].shape.rank()) {
      return Updates::map_rows(count(request), x[0], average);
    }
    return Updates::template map<float>(is_training ? count(request) : 0, average, -1);
  }
  /// Inputs: the variable and its slots, the gradient, the learning rate and perhaps the steps.
  template <class Rule>
  static Made by_rule(const KernelRequest& request, const Rule& rule) {
    constexpr int kOwn = Rule::kStates + (Rule::kCounts ? 3 : 2);
    return with_stored_type(request.inputs[Rule::kStates].dtype, [&](auto g) {
      return Updates::template by_rule<decltype(g)>(count(request), rule, gate(request, kOwn));
    });
  }
  static Made apply_sgd(const KernelRequest& request) { return by_rule(request, SgdRule()); }
  static Made apply_momentum(const KernelRequest& request) {
    const auto options = request.node.options<MomentumOptions>();
    const formulas::Velocity velocity{options.momentum};
    return options.nesterov ? by_rule(request, MomentumRule<true>{velocity})
                            : by_rule(request, MomentumRule<false>{velocity});
  }
  template <class Options>
  static Made apply_adam(const KernelRequest& request) {
    return by_rule(request, AdamRule<Options>{request.node.options<Options>()});
  }
  static Made apply_adagrad(const KernelRequest& request) {
    return by_rule(request, SquaresRule{{1, 1}, request.node.options<AdagradOptions>().epsilon});
  }
  static Made apply_rms_prop(const KernelRequest& request) {
    const auto options = request.node.options<RmsPropOptions>();
    return by_rule(request, SquaresRule{{options.decay, 1.0F - options.decay}, options.epsilon});
  }
  static Made apply_lion(const KernelRequest& request) {
    return by_rule(request, LionRule{request.node.options<LionOptions>()});
  }
  static Made average_weights(const KernelRequest& request) {
    return Updates::average(count(request), request.node.options<WeightAverageOptions>(), gate(request, 3));
  }
  static Made accumulated(const KernelRequest& request) { return Updates::accumulated(count(request)); }
};

}  // namespace sectionflow

#pragma once

#include <cstdint>
#include <memory>

#include "graph/ops/update.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/formulas/update.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {

/// The updates of variables: what a request asks for, in numbers and formulas. How a device goes through the elements
/// is up to `Updates`, whose static functions make a kernel each, of a variable with `count` elements:
/// - `copy(num_bytes)`: variable = x;
/// - `map<T>(count, function)`: variable = function(variable, x);
/// - `sgd(count)`;
/// - `momentum(count, velocity, nesterov)`;
/// - `by_squares(count, squares, epsilon)`: squares = squares(squares, g^2), then a ScaledStep by their root;
/// - `adam(count, options)`, for AdamOptions and AdamWOptions.
template <class Updates>
class UpdateFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("assign", assign, Bf16::native);
    registry.add("assign_add", assign_add);
    registry.add("update_moving_average", update_moving_average);
    registry.add("apply_sgd", apply_sgd);
    registry.add("apply_momentum", apply_momentum);
    registry.add("apply_adam", apply_adam<AdamOptions>);
    registry.add("apply_adam_w", apply_adam<AdamWOptions>);
    registry.add("apply_adagrad", apply_adagrad);
    registry.add("apply_rms_prop", apply_rms_prop);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  static std::int64_t count(const KernelRequest& request) { return request.inputs[0].shape.num_elements(); }

  static Made assign(const KernelRequest& request) { return Updates::copy(request.inputs[0].bytes()); }
  static Made assign_add(const KernelRequest& request) {
    switch (request.inputs[0].dtype) {
      case Dtype::f32:
        return Updates::template map<float>(count(request), formulas::Add());
      case Dtype::i64:
        // Unsigned, so that a counter that overflows wraps around.
        return Updates::template map<std::uint64_t>(count(request), formulas::Add());
      default:
        return nullptr;
    }
  }
  static Made update_moving_average(const KernelRequest& request) {
    const bool is_training = request.host_booleans[2].value_or(false);
    const float decay = request.node.options<MovingAverageOptions>().decay;
    return Updates::template map<float>(is_training ? count(request) : 0, formulas::Average{decay, 1.0F - decay});
  }
  static Made apply_sgd(const KernelRequest& request) { return Updates::sgd(count(request)); }
  static Made apply_momentum(const KernelRequest& request) {
    const auto options = request.node.options<MomentumOptions>();
    return Updates::momentum(count(request), formulas::Velocity{options.momentum}, options.nesterov);
  }
  template <class Options>
  static Made apply_adam(const KernelRequest& request) {
    return Updates::adam(count(request), request.node.options<Options>());
  }
  static Made apply_adagrad(const KernelRequest& request) {
    return Updates::by_squares(count(request), {1, 1}, request.node.options<AdagradOptions>().epsilon);
  }
  static Made apply_rms_prop(const KernelRequest& request) {
    const auto options = request.node.options<RmsPropOptions>();
    return Updates::by_squares(count(request), {options.decay, 1.0F - options.decay}, options.epsilon);
  }
};

}  // namespace sectionflow

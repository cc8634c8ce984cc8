#pragma once

#include <cstdint>
#include <memory>

#include "graph/ops/update.h"
#include "kernels/formulas/arithmetic.h"
#include "kernels/formulas/update.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// The updates of variables: what a request asks for, in numbers and formulas. How a device goes through the elements
/// is up to `Updates`, whose static functions make a kernel each, of a variable with `count` elements:
/// - `copy(num_bytes)`: variable = x;
/// - `map<T>(count, function)`: variable = function(variable, x);
/// - `sgd<G>(count)`, like those up to `lion` with a gradient that is stored as G, f32 or bf16;
/// - `momentum<G>(count, velocity, nesterov)`;
/// - `by_squares<G>(count, squares, epsilon)`: squares = squares(squares, g^2), then a ScaledStep by their root;
/// - `adam<G>(count, options)`, for AdamOptions and AdamWOptions;
/// - `lion<G>(count, options)`;
/// - `average(count, options)`: average = weight_average(options, updates)(average, variable), where it is taken;
/// - `accumulated(count)`: y = Accumulated{micro_batch = 0}(accumulator, x), which may lie over x.
/// All but the copy and the last take a `gate` last: the number of the input, a boolean on the device, that lets the
/// update happen; below 0: it always does.
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
    return Updates::template map<float>(is_training ? count(request) : 0, formulas::Average{decay, 1.0F - decay}, -1);
  }
  static Made apply_sgd(const KernelRequest& request) {
    return with_stored_type(request.inputs[1].dtype, [&](auto g) {
      return Updates::template sgd<decltype(g)>(count(request), gate(request, 3));
    });
  }
  static Made apply_momentum(const KernelRequest& request) {
    const auto options = request.node.options<MomentumOptions>();
    return with_stored_type(request.inputs[2].dtype, [&](auto g) {
      return Updates::template momentum<decltype(g)>(count(request), formulas::Velocity{options.momentum},
                                                     options.nesterov, gate(request, 4));
    });
  }
  template <class Options>
  static Made apply_adam(const KernelRequest& request) {
    return with_stored_type(request.inputs[3].dtype, [&](auto g) {
      return Updates::template adam<decltype(g)>(count(request), request.node.options<Options>(), gate(request, 6));
    });
  }
  static Made by_squares(const KernelRequest& request, formulas::Average squares, float epsilon) {
    return with_stored_type(request.inputs[2].dtype, [&](auto g) {
      return Updates::template by_squares<decltype(g)>(count(request), squares, epsilon, gate(request, 4));
    });
  }
  static Made apply_adagrad(const KernelRequest& request) {
    return by_squares(request, {1, 1}, request.node.options<AdagradOptions>().epsilon);
  }
  static Made apply_rms_prop(const KernelRequest& request) {
    const auto options = request.node.options<RmsPropOptions>();
    return by_squares(request, {options.decay, 1.0F - options.decay}, options.epsilon);
  }
  static Made apply_lion(const KernelRequest& request) {
    return with_stored_type(request.inputs[2].dtype, [&](auto g) {
      return Updates::template lion<decltype(g)>(count(request), request.node.options<LionOptions>(), gate(request, 4));
    });
  }
  static Made average_weights(const KernelRequest& request) {
    return Updates::average(count(request), request.node.options<WeightAverageOptions>(), gate(request, 3));
  }
  static Made accumulated(const KernelRequest& request) { return Updates::accumulated(count(request)); }
};

}  // namespace sectionflow

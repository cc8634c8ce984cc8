#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Softmax cross entropy and its gradient: the labels and weights that a request asks for. How a device computes is up
/// to `Passes`, whose static functions `forward<Label, kHasWeights>(request)` and `gradient<Label,
/// kHasWeights>(request)` make a kernel each. Label: of a class number, or float, of probabilities.
template <class Passes>
class SoftmaxCrossEntropyFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("softmax_cross_entropy", forward);
    registry.add("softmax_cross_entropy_grad", gradient);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  static Made forward(const KernelRequest& request) {
    const bool has_weights = request.inputs.size() == 3;
    return with_labels(request.inputs[1].dtype, has_weights, [&](auto label, auto weighted) {
      return Passes::template forward<decltype(label), decltype(weighted)::value>(request);
    });
  }
  static Made gradient(const KernelRequest& request) {
    const bool has_weights = request.inputs.size() == 5;
    return with_labels(request.inputs[3].dtype, has_weights, [&](auto label, auto weighted) {
      return Passes::template gradient<decltype(label), decltype(weighted)::value>(request);
    });
  }

  /// `make(Label{}, std::bool_constant<has_weights>{})`; nothing for a type that no label has.
  template <class Make>
  static Made with_labels(Dtype dtype, bool has_weights, const Make& make) {
    const auto with_weights = [&](auto label) {
      return has_weights ? make(label, std::true_type{}) : make(label, std::false_type{});
    };
    switch (dtype) {
      case Dtype::i32:
        return with_weights(std::int32_t{});
      case Dtype::i64:
        return with_weights(std::int64_t{});
      case Dtype::f32:
        return with_weights(float{});
      default:
        return nullptr;
    }
  }
};

}  // namespace sectionflow

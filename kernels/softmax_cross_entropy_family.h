#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// Softmax cross entropy and its gradient: the logits, labels and weights that a request asks for. How a device
/// computes is up to `Passes`, whose static functions `forward<T, Label, kHasWeights>(request)` and `gradient<T, Label,
/// kHasWeights>(request)` make a kernel each. T: of a logit as it is stored. Label: of a class number, or float, of
/// probabilities; with these, logits of bf16 are left to the kernel of f32 between casts.
template <class Passes>
class SoftmaxCrossEntropyFamily {
 public:
  static void add_to(KernelRegistry& registry) {
    registry.add("softmax_cross_entropy", forward, Bf16::native);
    registry.add("softmax_cross_entropy_grad", gradient, Bf16::native);
  }

 private:
  using Made = std::unique_ptr<Kernel>;

  static Made forward(const KernelRequest& request) {
    const bool has_weights = request.inputs.size() == 3;
    return with_types(
        request.inputs[0].dtype, request.inputs[1].dtype, has_weights, [&](auto logit, auto label, auto weighted) {
          return Passes::template forward<decltype(logit), decltype(label), decltype(weighted)::value>(request);
        });
  }
  static Made gradient(const KernelRequest& request) {
    const bool has_weights = request.inputs.size() == 5;
    return with_types(
        request.inputs[2].dtype, request.inputs[3].dtype, has_weights, [&](auto logit, auto label, auto weighted) {
          return Passes::template gradient<decltype(logit), decltype(label), decltype(weighted)::value>(request);
        });
  }

  /// `make(T{}, Label{}, std::bool_constant<has_weights>{})`; nothing for types that there are no kernels for.
  template <class Make>
  static Made with_types(Dtype logits, Dtype labels, bool has_weights, const Make& make) {
    const auto with_weights = [&](auto logit, auto label) {
      return has_weights ? make(logit, label, std::true_type{}) : make(logit, label, std::false_type{});
    };
    if (labels == Dtype::f32) return logits == Dtype::f32 ? with_weights(float{}, float{}) : nullptr;
    if (labels != Dtype::i32 && labels != Dtype::i64) return nullptr;
    return with_stored_type(logits, [&](auto logit) {
      return labels == Dtype::i32 ? with_weights(logit, std::int32_t{}) : with_weights(logit, std::int64_t{});
    });
  }
};

}  // namespace sectionflow

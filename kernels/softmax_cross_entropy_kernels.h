#pragma once

#include <cstdint>
#include <memory>

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Pass<Label, kHasWeights>::make(request), for the type of the labels.
template <template <class, bool> class Pass>
std::unique_ptr<Kernel> make_cross_entropy_pass(const KernelRequest& request, Dtype label, bool has_weights) {
  switch (label) {
    case Dtype::i32:
      return has_weights ? Pass<std::int32_t, true>::make(request) : Pass<std::int32_t, false>::make(request);
    case Dtype::i64:
      return has_weights ? Pass<std::int64_t, true>::make(request) : Pass<std::int64_t, false>::make(request);
    case Dtype::f32:
      return has_weights ? Pass<float, true>::make(request) : Pass<float, false>::make(request);
    default:
      return nullptr;
  }
}

/// The family's kernels from a room's two passes.
template <template <class, bool> class Forward, template <class, bool> class Gradient>
void add_softmax_cross_entropy_kernels(KernelRegistry& registry) {
  registry.add("softmax_cross_entropy", [](const KernelRequest& request) {
    return make_cross_entropy_pass<Forward>(request, request.inputs[1].dtype, request.inputs.size() == 3);
  });
  registry.add("softmax_cross_entropy_grad", [](const KernelRequest& request) {
    return make_cross_entropy_pass<Gradient>(request, request.inputs[3].dtype, request.inputs.size() == 5);
  });
}

}  // namespace sectionflow

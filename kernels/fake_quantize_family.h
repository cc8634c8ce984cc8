#pragma once

#include <memory>

#include "kernels/formulas/fake_quantize.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

namespace sectionflow {

/// Kernels of fake_quantize and of its gradients by the loops of `Elements`, as ElementwiseFamily has them.
template <class Elements>
class FakeQuantizeFamily {
 public:
  static void add(KernelRegistry& registry) {
    registry.add("fake_quantize", rounded, Bf16::native);
    registry.add("fake_quantize_grad", gradient, Bf16::native);
    registry.add("fake_quantize_range_grad", range_gradient, Bf16::native);
  }

 private:
  static std::unique_ptr<Kernel> rounded(const KernelRequest& request) {
    return with_stored_type(request.inputs[0].dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<T, T, float, float>(request, OfStored<T, formulas::FakeQuantize>{});
    });
  }
  static std::unique_ptr<Kernel> gradient(const KernelRequest& request) {
    return with_stored_type(request.inputs[1].dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<T, T, T, float, float>(request, OfStored<T, formulas::FakeQuantizeGrad>{});
    });
  }
  static std::unique_ptr<Kernel> range_gradient(const KernelRequest& request) {
    return with_stored_type(request.inputs[1].dtype, [&](auto element) {
      using T = decltype(element);
      return Elements::template broadcast<float, T, T, float, float>(
          request, OfStored<float, formulas::FakeQuantizeRangeGrad>{});
    });
  }
};

}  // namespace sectionflow

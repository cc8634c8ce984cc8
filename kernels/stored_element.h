#pragma once

#include "base/dtype.h"
#include "base/host_device.h"

// Kernels for f32 and bf16 alike: what differs is how elements lie in memory, never the arithmetic. A body loads T,
// computes in float, and stores `static_cast<T>(result)`, which rounds to bf16 once. So a kernel for bf16 gives the
// bits of the one for f32 between copies (kernels/widened_kernel.h). Attention on tensor cores is the exception.
namespace sectionflow {

/// `visit(T{})` for the C++ type of f32, or of bf16.
template <class Visit>
auto with_stored_type(Dtype dtype, const Visit& visit) {
  return dtype == Dtype::bf16 ? visit(BFloat16{}) : visit(float{});
}

/// What x is stored as, f32 or rounded to bf16. A function, since g++ makes no vectors of a loop in which objects are
/// made by their constructor.
template <class T>
SF_HOST_DEVICE T stored(float x) {
  return static_cast<T>(x);
}

/// A function of floats for elements that are stored as T.
template <class T, class Function>
struct OfStored {
  Function function;
  template <class... X>
  SF_HOST_DEVICE T operator()(X... x) const {
    return stored<T>(function(static_cast<float>(x)...));
  }
};

}  // namespace sectionflow

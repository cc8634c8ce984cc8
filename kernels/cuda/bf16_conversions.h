#pragma once

#include "kernels/convert_element.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/widened_kernel.h"

namespace sectionflow::gpu {

template <class To, class From>
struct ConvertElement {
  SF_HOST_DEVICE To operator()(From x) const { return convert_element<To>(x); }
};

template <class From, class To>
void launch_conversion(void* queue, std::int64_t count, const void* from, void* to) {
  launch_map<To, From>(queue, count, ConvertElement<To, From>(), to, {from});
}

/// One element-wise launch each.
inline Bf16Conversions bf16_conversions() {
  return {.widen = launch_conversion<BFloat16, float>, .round = launch_conversion<float, BFloat16>};
}

}  // namespace sectionflow::gpu

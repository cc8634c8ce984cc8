#include "kernels/cpu/bf16_conversions.h"

#include "base/bfloat16.h"
#include "device/parallel.h"

namespace sectionflow {
namespace {

template <class From, class To>
void convert(void*, std::int64_t count, const void* from, void* to) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  parallel_for(count, kParallelGrain, [=](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) y[i] = To(x[i]);
  });
}

}  // namespace

Bf16Conversions cpu_bf16_conversions() {
  return {.widen = convert<BFloat16, float>, .round = convert<float, BFloat16>};
}

}  // namespace sectionflow

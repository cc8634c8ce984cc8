#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "kernels/cuda/aligned.h"

namespace sectionflow::gpu {

/// Four neighbours that a thread moves at once: 16 bytes.
struct alignas(16) Four {
  float values[4];
};

/// The four elements from 4 * i on of `x`, which lies at a multiple of 16 bytes: whatever tensor starts there does.
SF_HOST_DEVICE inline Four load_four(const float* x, std::int64_t i) {
  return aligned<Four>(x)[i];
}
SF_HOST_DEVICE inline void store_four(float* x, std::int64_t i, const Four& four) {
  aligned<Four>(x)[i] = four;
}

}  // namespace sectionflow::gpu

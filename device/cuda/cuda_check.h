#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"

namespace sectionflow::gpu {

/// Throws: DeviceError with the runtime's own words for everything but success. `what` names the call.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // what has been reported is not reported again by the next call
  throw DeviceError(text_of("cuda: ", what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")"));
}

}  // namespace sectionflow::gpu

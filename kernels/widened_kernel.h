#pragma once

#include <memory>

#include "kernels/kernel_registry.h"

namespace sectionflow {

/// Those of the CPU: vector loops on the threads of the device.
Bf16Conversions cpu_bf16_conversions();

/// Whether any tensor of the request is bf16.
bool has_bf16(const KernelRequest& request);

/// Whether a kernel of f32 can serve the request: ops that change variables work on their very bytes.
bool can_be_widened(const KernelRequest& request);

/// The request with f32 in place of bf16.
KernelRequest widened_request(const KernelRequest& request);

/// The kernel for a request with bf16 tensors around `kernel`, which was made for widened_request: bf16 inputs are
/// widened into workspace, bf16 outputs are rounded from there. What is f32, statistics, goes past it as it is. Each
/// bf16 output may lie over any bf16 input of its bytes. Throws: InternalError for a kept output that is bf16: a replay
/// would read it rounded.
std::unique_ptr<Kernel> widened_kernel(const KernelRequest& request, std::unique_ptr<Kernel> kernel,
                                       const Bf16Conversions& conversions);

}  // namespace sectionflow

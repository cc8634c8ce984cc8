#pragma once

#include "kernels/widened_kernel.h"

namespace sectionflow {

/// Vector loops on the threads of the device.
Bf16Conversions cpu_bf16_conversions();

}  // namespace sectionflow

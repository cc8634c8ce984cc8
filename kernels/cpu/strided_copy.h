#pragma once

#include <memory>

#include "kernels/kernel.h"
#include "kernels/strided_copy.h"

namespace sectionflow {

/// The kernel that computes output 0 from input 0 so; in place where that changes nothing.
std::unique_ptr<Kernel> strided_copy_kernel(const StridedCopy& copy);

}  // namespace sectionflow
